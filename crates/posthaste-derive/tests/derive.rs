//! What the generated implementations answer.

use std::borrow::Cow;
use std::fmt;

use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct OrderId(u64);

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order-{}", self.0)
    }
}

#[test]
fn a_field_is_displayed_as_the_key() {
    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "order.placed", key = order_id)]
    struct OrderPlaced {
        order_id: OrderId,
    }
    assert_eq!(OrderPlaced { order_id: OrderId(7) }.key().as_deref(), Some("order-7"));
    assert_eq!((OrderPlaced::VERSION, OrderPlaced::TOPIC), (1, None));
}

#[test]
fn an_optional_field_gives_no_key_when_it_is_none() {
    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "order.noted", key = order_id)]
    struct OrderNoted {
        order_id: std::option::Option<OrderId>,
    }
    assert_eq!(OrderNoted { order_id: Some(OrderId(7)) }.key().as_deref(), Some("order-7"));
    assert_eq!(OrderNoted { order_id: None }.key(), None);
}

#[test]
fn fields_may_have_numbers_and_keywords_for_names() {
    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "pair", key = 1)]
    struct Pair(u8, i16);
    assert_eq!(Pair(1, -2).key().as_deref(), Some("-2"));

    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "raw", key = r#type)]
    struct Raw {
        r#type: char,
    }
    assert_eq!(Raw { r#type: 'x' }.key().as_deref(), Some("x"));
}

#[test]
fn a_constant_and_an_expression_can_be_keys() {
    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "constant", key = "eu")]
    struct Constant;
    assert!(matches!(Constant.key(), Some(Cow::Borrowed("eu"))));

    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "expression", key = format_args!("{}/{}", self.shop, self.id + 1))]
    struct Expression {
        shop: String,
        id: u32,
    }
    assert_eq!(Expression { shop: "s".into(), id: 1 }.key().as_deref(), Some("s/2"));

    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "expression.of.type", key = Self::KEY)]
    enum OfType {
        Only,
    }
    impl OfType {
        const KEY: u8 = 9;
    }
    assert_eq!(OfType::Only.key().as_deref(), Some("9"));
}

#[test]
fn generics_are_carried_over() {
    #[derive(Event, Serialize, Deserialize)]
    #[event(type = "generic", key = id)]
    struct Generic<T: fmt::Display, U, const N: usize>
    where
        U: Clone,
    {
        id: T,
        more: Vec<U>,
    }
    assert_eq!(Generic::<_, u8, 3> { id: OrderId(1), more: vec![] }.key().as_deref(), Some("order-1"));
}

/// The names that the macro uses may mean something else where it is used.
#[test]
fn nothing_in_scope_disturbs_the_generated_code() {
    #[expect(dead_code, reason = "they are there to be in the way")]
    mod shadowed {
        struct Option;
        struct String;
        enum Some {}
        trait ToString {}
        mod std {}
        mod core {}
        mod posthaste {}

        #[derive(::posthaste::Event, ::serde::Serialize, ::serde::Deserialize)]
        #[event(type = "in.the.way", version = 2, topic = "way", key = id)]
        pub(super) struct InTheWay {
            pub(super) id: u8,
        }
    }
    assert_eq!(shadowed::InTheWay { id: 1 }.key().as_deref(), Some("1"));
    assert_eq!(shadowed::InTheWay::TOPIC, Some("way"));
}

#[test]
fn the_path_to_the_library_can_be_given() {
    mod framework {
        pub(crate) use ::posthaste as events;
    }
    #[derive(Event, Serialize, Deserialize)]
    #[event(crate = framework::events, type = "elsewhere")]
    struct Elsewhere;
    assert_eq!(Elsewhere::TYPE, "elsewhere");
}
