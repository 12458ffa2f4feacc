//! The examples for other languages, as their users run them: what they publish is delivered.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::brokers::environment;
use crate::http_process::skip;
use crate::postgres::stand::Stand;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

impl Stand {
    /// The table that the examples change beside publishing.
    async fn with_orders(self) -> Self {
        let table = "CREATE TABLE orders (id bigint PRIMARY KEY, version bigint NOT NULL DEFAULT 0);
                     GRANT SELECT, INSERT, UPDATE ON orders TO program_shop";
        self.session("postgres").await.batch_execute(table).await.unwrap();
        self
    }

    /// The one event that there is, as a relay delivers it.
    fn delivered(&self) -> Value {
        let carrier = self.url("program_carrier");
        let answer = self.folder.ok(&["relay", "--once", "--to", "stdout:", "--store", &carrier]);
        serde_json::from_str(answer.text()).unwrap_or_else(|_| panic!("not one line: {}", answer.text()))
    }
}

fn worked(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_psql_publishes_is_delivered() {
    let Some(stand) = Stand::new("languages::what_psql_publishes_is_delivered").await else { return };
    let stand = stand.with_orders().await;
    let mut psql = Command::new("psql");
    psql.arg(stand.url("program_shop")).args(["--no-psqlrc", "--quiet", "--set", "order=42", "--file"]);
    let Ok(output) = psql.arg(example("psql/publish.sql")).output() else {
        skip::say("languages::what_psql_publishes_is_delivered", "psql is missing");
        return stand.end().await;
    };
    worked(&output);
    let line = stand.delivered();
    assert_eq!(
        (&line["type"], &line["data"]["order"]),
        (&Value::from("order.placed"), &Value::from(42)),
        "{line}"
    );
    stand.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_python_publishes_is_delivered() {
    let trial = "languages::what_python_publishes_is_delivered";
    let Some(stand) = Stand::new(trial).await else { return };
    let stand = stand.with_orders().await;
    let python = match environment::python("python", &example("python/requirements.txt")) {
        Ok(python) => python,
        Err(why) => {
            skip::say(trial, &why);
            return stand.end().await;
        }
    };
    let output = Command::new(python)
        .arg(example("python/publish.py"))
        .args([&stand.url("program_shop"), "42"])
        .output();
    let id = worked(&output.unwrap());
    let line = stand.delivered();
    assert_eq!(
        (line["id"].as_str(), &line["data"]["by"]),
        (Some(id.as_str()), &Value::from("python")),
        "{line}"
    );
    assert_eq!(line["source"], "/shop", "{line}");
    stand.end().await;
}
