//! The OpenAPI document says what the server does: every path and method of the one is in the other, and who may ask.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_server::http::{Face, paths};
use serde_json::Value;

use crate::http_api::stand::Stand;

/// A path of the document with something in the place of its names.
fn filled(path: &str) -> String {
    path.replace("{id}", "1").replace("{lane}", "main").replace("{verb}", "pause").replace("{job}", "1")
}

/// The document's operations, by path.
async fn documented(stand: &Stand) -> BTreeMap<String, Value> {
    let document = stand.stranger().get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let Value::Object(paths) = document["paths"].clone() else { panic!("the document has no paths") };
    paths.into_iter().collect()
}

#[tokio::test]
async fn every_route_is_in_the_document_with_its_methods_and_nothing_else() {
    let stand = Stand::start().await;
    let documented = documented(&stand).await;
    let routes: BTreeSet<_> = paths(Face::Public).into_iter().map(str::to_owned).collect();
    assert_eq!(documented.keys().cloned().collect::<BTreeSet<_>>(), routes);
    for (path, operations) in &documented {
        // No route takes this method, so that the answer names those that it takes.
        let answer = stand.operator.ask("PATCH", &filled(path), &[], b"").await;
        assert_eq!(answer.status, 405, "{path}");
        let allowed =
            answer.header("allow").expect("405 has Allow").split(',').filter(|name| *name != "HEAD");
        let allowed: BTreeSet<String> = allowed.map(str::to_lowercase).collect();
        let methods: BTreeSet<String> = operations.as_object().expect("operations").keys().cloned().collect();
        assert_eq!(methods, allowed, "{path}");
    }
    stand.stopped().await;
}

#[tokio::test]
async fn what_the_document_calls_open_needs_no_key_and_everything_else_does() {
    let stand = Stand::start().await;
    for (path, operations) in documented(&stand).await {
        for (method, operation) in operations.as_object().expect("operations") {
            let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
            let answer = stand.stranger().ask(&method.to_uppercase(), &filled(&path), &[], b"").await;
            assert_eq!(answer.status != 401, is_open, "{method} {path}: {}", answer.status);
            let statuses = operation["responses"].as_object().expect("responses");
            assert!(statuses.contains_key(&answer.status.to_string()), "{method} {path}: {}", answer.status);
        }
    }
    stand.stopped().await;
}

#[tokio::test]
async fn a_key_may_do_what_the_document_says_of_its_scopes_and_nothing_else() {
    let stand = Stand::start().await;
    let document = stand.stranger().get("/openapi.json").await.json();
    let by_default = document["security"].clone();
    for (path, operations) in documented(&stand).await {
        for (method, operation) in operations.as_object().expect("operations") {
            let needed = operation.get("security").unwrap_or(&by_default);
            let Some(needed) = needed[0]["key"].as_array() else { continue };
            assert_eq!(needed.len(), 1, "{method} {path} needs one scope");
            for (scope, client) in &stand.scoped {
                let answer = client.ask(&method.to_uppercase(), &filled(&path), &[], b"").await;
                assert_eq!(
                    answer.status == 403,
                    needed[0] != *scope,
                    "{method} {path} with {scope}: {}",
                    answer.text()
                );
            }
        }
    }
    stand.stopped().await;
}

/// Whatever the document refers to is in it.
#[tokio::test]
async fn every_reference_of_the_document_leads_somewhere() {
    let stand = Stand::start().await;
    let document = stand.stranger().get("/openapi.json").await.json();
    let text = document.to_string();
    let references: BTreeSet<&str> =
        text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(references.len() > 10, "{references:?}");
    for reference in references {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
    stand.stopped().await;
}
