//! What is wrong with a consumer is said before it runs, all at once.

use posthaste_core::ErrorKind;
use posthaste_core::consumer::{Consumer, Cx, Failure};

use crate::Placed;

async fn nothing(_: &mut Cx, _: Placed) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn every_mistake_is_told_at_once_and_says_what_to_do() {
    let table: [(Consumer, &str); 9] = [
        (Consumer::named("").on(nothing), "the name \"\" cannot be a group"),
        (Consumer::named("a b").on(nothing), "the name \"a b\" cannot be a group"),
        (Consumer::named("ü").on(nothing), "letters, digits, '-', '_' and '.'"),
        (Consumer::named("stock"), "there is no handler"),
        (
            Consumer::named("stock").on(nothing).on(nothing),
            "two handlers for events of type \"order.placed\"",
        ),
        (Consumer::named("stock").on(nothing).workers(0), "workers is 0"),
        (Consumer::named("stock").on(nothing).prefetch(0), "prefetch is 0"),
        (Consumer::named("stock").on(nothing).topics(["a*"]), "is not a topic pattern"),
        (Consumer::named("stock").on(nothing).batch(10), "there is no database"),
    ];
    for (consumer, expected) in table {
        let error = consumer.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let both = Consumer::named("").on(nothing).workers(0).check().unwrap_err().to_string();
    assert!(both.contains("cannot be a group") && both.contains("workers is 0"), "{both}");
    assert!(Consumer::named("stock").on(nothing).check().is_ok());
}
