//! What `#[event(…)]` says, read and checked.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, LitStr, Meta, Path, Token, Type};

/// The longest type and topic, as the library's own limits have it.
const NAME_BYTES_MAX: usize = 255;

/// Every name that `#[event(…)]` knows, with an example of its use.
const KNOWN: [(&str, &str); 6] = [
    ("type", "type = \"order.placed\""),
    ("version", "version = 2"),
    ("topic", "topic = \"orders\""),
    ("key", "key = order_id"),
    ("codec", "codec = MyCodec"),
    ("crate", "crate = my_crate::posthaste"),
];

/// The settings of one event; what is `None` was not given.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) event_type: Option<LitStr>,
    pub(crate) version: Option<u32>,
    pub(crate) topic: Option<LitStr>,
    pub(crate) key: Option<Expr>,
    pub(crate) codec: Option<Type>,
    pub(crate) krate: Option<Path>,
    given: Vec<String>,
}

impl Settings {
    /// Reads every `#[event(…)]` of a type; reports all that is wrong with them, not the first alone.
    pub(crate) fn of(attributes: &[Attribute]) -> (Self, Option<Error>) {
        let mut settings = Self::default();
        let mut errors = None;
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("event")) {
            if let Err(error) = settings.read(attribute) {
                note(&mut errors, error);
            }
        }
        (settings, errors)
    }

    fn read(&mut self, attribute: &Attribute) -> syn::Result<()> {
        let Meta::List(list) = &attribute.meta else {
            return Err(Error::new(attribute.span(), "write `#[event(type = \"order.placed\")]`"));
        };
        let mut errors = None;
        let settings = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = self.read_one(input) {
                    note(&mut errors, error);
                    skip_to_comma(input)?;
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        settings.parse2(list.tokens.clone())?;
        errors.map_or(Ok(()), Err)
    }

    fn read_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let name = input.call(Ident::parse_any)?;
        let text = name.unraw().to_string();
        let Some((_, example)) = KNOWN.iter().find(|(known, _)| *known == text) else {
            let known: Vec<_> = KNOWN.iter().map(|(known, _)| format!("`{known}`")).collect();
            let message = format!("`{text}` is not a setting of an event; there are {}", known.join(", "));
            return Err(Error::new(name.span(), message));
        };
        if self.given.contains(&text) {
            return Err(Error::new(name.span(), format!("`{text}` is given twice: remove one of them")));
        }
        self.given.push(text.clone());
        if !input.peek(Token![=]) {
            return Err(Error::new(name.span(), format!("`{text}` needs a value: write `{example}`")));
        }
        input.parse::<Token![=]>()?;
        match &*text {
            "type" => self.event_type = Some(wire_name(&text, example, input.parse()?)?),
            "version" => self.version = Some(version(&input.parse()?)?),
            "topic" => self.topic = Some(wire_name(&text, example, input.parse()?)?),
            "key" => self.key = Some(input.parse()?),
            "codec" => self.codec = Some(input.parse()?),
            _ => self.krate = Some(input.call(Path::parse_mod_style)?),
        }
        Ok(())
    }

    /// Whether a setting was given, be it right or wrong.
    pub(crate) fn gave(&self, name: &str) -> bool {
        self.given.iter().any(|given| given == name)
    }
}

/// Adds an error to those found before.
pub(crate) fn note(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

/// Leaves the rest of a setting that is wrong, so that the next one is still looked at.
fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

/// A type or a topic: it goes over every broker's wire, so it is short and has no blanks.
fn wire_name(setting: &str, example: &str, value: Expr) -> syn::Result<LitStr> {
    let problem = |span: Span, problem: &str| Err(Error::new(span, format!("{problem}: write `{example}`")));
    let name = match value {
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => name,
        other => return problem(other.span(), &format!("`{setting}` must be a string literal")),
    };
    let text = name.value();
    if text.is_empty() {
        return problem(name.span(), &format!("`{setting}` must not be empty"));
    }
    if text.len() > NAME_BYTES_MAX {
        let long = text.len();
        let message =
            format!("`{setting}` must not be longer than {NAME_BYTES_MAX} bytes, and this has {long}");
        return Err(Error::new(name.span(), message));
    }
    if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return problem(name.span(), &format!("`{setting}` must not contain blanks or control characters"));
    }
    Ok(name)
}

fn version(value: &Expr) -> syn::Result<u32> {
    let version = match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            number.base10_parse().ok().filter(|version| *version > 0)
        }
        _ => None,
    };
    version.ok_or_else(|| {
        let message = format!("`version` must be a whole number from 1 to {}: write `version = 2`", u32::MAX);
        Error::new(value.span(), message)
    })
}
