//! Every mistake and what is said about it. Where each message points to is shown by the facade's `tests/ui`.

use proc_macro2::Span;
use quote::quote;
use syn::{Ident, parse_quote};

use super::{DeriveInput, expand};

fn messages(input: &DeriveInput) -> Vec<String> {
    match expand(input) {
        Ok(tokens) => panic!("accepted: {tokens}"),
        Err(errors) => errors.into_iter().map(|error| error.to_string()).collect(),
    }
}

#[test]
fn only_what_was_given_is_written() {
    let tokens = expand(&parse_quote! {
        #[event(type = "order.placed")]
        struct OrderPlaced { order_id: u64 }
    })
    .unwrap();
    let expected = quote! {
        #[automatically_derived]
        impl ::posthaste::Event for OrderPlaced {
            const TYPE: &'static str = "order.placed";
            type Codec = ::posthaste::codec::Json;
        }
    };
    assert_eq!(tokens.to_string(), expected.to_string());
}

#[test]
fn settings_may_be_spread_over_attributes() {
    let tokens = expand(&parse_quote! {
        #[event(type = "a", version = 3,)]
        #[event(topic = "t", key = "k", crate = here::posthaste)]
        struct A;
    })
    .unwrap()
    .to_string();
    for part in [
        quote!(impl here::posthaste::Event for A),
        quote!(
            const VERSION: u32 = 3u32;
        ),
        quote!(::core::option::Option::Some("t")),
        quote!(::std::borrow::Cow::Borrowed("k")),
        quote!(here::posthaste::codec::Json),
    ] {
        assert!(tokens.contains(&part.to_string()), "{part} is not in {tokens}");
    }
}

#[test]
fn a_missing_type_is_suggested_from_the_name() {
    let expected = "this event has no type: add `#[event(type = \"order.line.added\")]`";
    assert_eq!(
        messages(&parse_quote!(
            struct OrderLineAdded;
        )),
        [expected]
    );
}

#[test]
fn names_on_the_wire_are_checked() {
    let too_long = "x".repeat(256);
    for (setting, name, expected) in [
        ("type", "", "`type` must not be empty: write `type = \"order.placed\"`"),
        ("topic", "", "`topic` must not be empty: write `topic = \"orders\"`"),
        (
            "type",
            "order placed",
            "`type` must not contain blanks or control characters: write `type = \"order.placed\"`",
        ),
        (
            "topic",
            "a\u{7}b",
            "`topic` must not contain blanks or control characters: write `topic = \"orders\"`",
        ),
        ("type", &too_long, "`type` must not be longer than 255 bytes, and this has 256"),
    ] {
        let setting_name = Ident::new(setting, Span::call_site());
        let rest = (setting == "topic").then(|| quote!(, type = "t"));
        let found = messages(&parse_quote!(
            #[event(#setting_name = #name #rest)]
            struct A;
        ));
        assert_eq!(found, [expected]);
    }
    let longest = "é".repeat(127);
    expand(&parse_quote!(
        #[event(type = #longest)]
        struct A;
    ))
    .unwrap();
}

#[test]
fn a_version_is_a_whole_number_from_one() {
    let expected = "`version` must be a whole number from 1 to 4294967295: write `version = 2`";
    for version in [quote!(0), quote!("1"), quote!(1.5), quote!(-1), quote!(4_294_967_296), quote!(VERSION)] {
        assert_eq!(
            messages(&parse_quote!(
                #[event(type = "a", version = #version)]
                struct A;
            )),
            [expected],
            "{version}"
        );
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let found = messages(&parse_quote! {
        #[event(topic = "", vresion = 1, key = id, key = id, codec)]
        #[event = "x"]
        struct A { order_id: u64, sku: String }
    });
    let expected = [
        "`topic` must not be empty: write `topic = \"orders\"`",
        "`vresion` is not a setting of an event; there are `type`, `version`, `topic`, `key`, `codec`, `crate`",
        "`key` is given twice: remove one of them",
        "`codec` needs a value: write `codec = MyCodec`",
        "write `#[event(type = \"order.placed\")]`",
        "this event has no type: add `#[event(type = \"a\")]`",
        "there is no field `id`; the fields are `order_id`, `sku`",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_key_that_is_no_field_names_those_that_are() {
    for (input, expected) in [
        (
            quote!(
                struct A(u64);
            ),
            "there is no field `id`; the field is `0`",
        ),
        (
            quote!(
                struct A;
            ),
            "there is no field `id`, nor any other: write `key = \"constant\"` or leave the key out",
        ),
        (
            quote!(
                enum A {
                    B { id: u64 },
                }
            ),
            "an enum has no fields of its own: write `key = self.some_method()`",
        ),
    ] {
        assert_eq!(messages(&parse_quote!(#[event(type = "a", key = id)] #input)), [expected]);
    }
    let found = messages(&parse_quote!(
        #[event(type = "a", key = 1)]
        struct A(u64);
    ));
    assert_eq!(found, ["there is no field `1`; the field is `0`"]);
}

#[test]
fn a_union_is_refused() {
    let found = messages(&parse_quote!(#[event(type = "a")] union A { a: u8, b: i8 }));
    assert_eq!(
        found,
        ["an event is a struct or an enum: what a union holds cannot be told, so it cannot be encoded"]
    );
}
