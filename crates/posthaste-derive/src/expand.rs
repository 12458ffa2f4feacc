//! From a type with `#[event(…)]` to its `impl Event`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Path, Type, parse_quote};

use crate::key;
use crate::settings::{Settings, note};

/// Writes the implementation, or says everything that is wrong at once.
pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let (settings, mut errors) = Settings::of(&input.attrs);
    if let Data::Union(data) = &input.data {
        let message =
            "an event is a struct or an enum: what a union holds cannot be told, so it cannot be encoded";
        note(&mut errors, Error::new(data.union_token.span, message));
    }
    if !settings.gave("type") {
        let suggestion = dotted(&input.ident.to_string());
        let message = format!("this event has no type: add `#[event(type = \"{suggestion}\")]`");
        note(&mut errors, Error::new(input.ident.span(), message));
    }
    let key = match settings.key.as_ref().map(|key| key::value(key, &input.data)).transpose() {
        Ok(key) => key,
        Err(error) => {
            note(&mut errors, error);
            None
        }
    };
    match errors {
        Some(errors) => Err(errors),
        None => Ok(implementation(input, settings, key)),
    }
}

fn implementation(input: &DeriveInput, settings: Settings, key: Option<TokenStream>) -> TokenStream {
    let krate: Path = settings.krate.unwrap_or_else(|| parse_quote!(::posthaste));
    let codec: Type = settings.codec.unwrap_or_else(|| parse_quote!(#krate::codec::Json));
    let event_type = settings.event_type;
    let version = settings.version.map(|version| quote! { const VERSION: u32 = #version; });
    let topic = settings.topic.map(|topic| {
        quote! {
            const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::Some(#topic);
        }
    });
    let key = key.map(|key| {
        quote! {
            fn key(&self) -> ::core::option::Option<::std::borrow::Cow<'_, str>> {
                #key
            }
        }
    });

    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() {
        // What the trait asks of the type, so that a parameter needs no bounds where the type is declared.
        let bounds = generics.make_where_clause();
        bounds.predicates.push(parse_quote!(Self: ::core::marker::Send + ::core::marker::Sync + 'static));
        bounds.predicates.push(parse_quote!(#codec: #krate::codec::Codec<Self>));
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let name = &input.ident;
    quote! {
        #[automatically_derived]
        impl #parameters #krate::Event for #name #arguments #bounds {
            const TYPE: &'static str = #event_type;
            #version
            #topic
            type Codec = #codec;
            #key
        }
    }
}

/// `OrderPlaced` as an event's type is commonly written: `order.placed`.
fn dotted(name: &str) -> String {
    let mut dotted = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !dotted.is_empty() {
            dotted.push('.');
        }
        dotted.extend(character.to_lowercase());
    }
    dotted
}

#[cfg(test)]
mod tests;
