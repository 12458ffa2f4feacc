//! The body of `fn key`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Data, Error, Expr, ExprLit, Field, Fields, Ident, Index, Lit, Member, Type};

/// What the key of an event evaluates to: an `Option<Cow<'_, str>>`.
pub(crate) fn value(key: &Expr, data: &Data) -> syn::Result<TokenStream> {
    match key {
        Expr::Lit(ExprLit { lit: Lit::Str(constant), .. }) => Ok(quote! {
            ::core::option::Option::Some(::std::borrow::Cow::Borrowed(#constant))
        }),
        Expr::Lit(ExprLit { lit: Lit::Int(index), .. }) => {
            let index = Index { index: index.base10_parse()?, span: index.span() };
            field(Member::Unnamed(index), data)
        }
        Expr::Path(path) => match path.path.get_ident() {
            Some(name) if name != "self" => field(Member::Named(name.clone()), data),
            _ => Ok(displayed(key)),
        },
        _ => Ok(displayed(key)),
    }
}

/// `key = order_id`, or `key = 0` in a tuple struct.
fn field(member: Member, data: &Data) -> syn::Result<TokenStream> {
    let fields = match data {
        Data::Struct(data) => &data.fields,
        _ => {
            return Err(Error::new(
                member.span(),
                "an enum has no fields of its own: write `key = self.some_method()`",
            ));
        }
    };
    let members: Vec<_> = fields.members().collect();
    let Some(field) =
        members.iter().position(|known| same(known, &member)).and_then(|at| fields.iter().nth(at))
    else {
        return Err(Error::new(member.span(), no_such_field(&member, fields, &members)));
    };
    let access = quote_spanned! { member.span()=> self.#member };
    Ok(if is_option(field) {
        quote_spanned! { member.span()=>
            ::core::option::Option::map(::core::option::Option::as_ref(&#access), |key| {
                ::std::borrow::Cow::Owned(::std::string::ToString::to_string(key))
            })
        }
    } else {
        displayed(&access)
    })
}

fn displayed(key: &impl quote::ToTokens) -> TokenStream {
    let span = key.span();
    quote_spanned! { span=>
        ::core::option::Option::Some(::std::borrow::Cow::Owned(::std::string::ToString::to_string(&(#key))))
    }
}

fn same(known: &Member, wanted: &Member) -> bool {
    match (known, wanted) {
        (Member::Named(known), Member::Named(wanted)) => known == wanted,
        (Member::Unnamed(known), Member::Unnamed(wanted)) => known.index == wanted.index,
        _ => false,
    }
}

fn no_such_field(member: &Member, fields: &Fields, members: &[Member]) -> String {
    let name = match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    if members.is_empty() {
        return format!(
            "there is no field `{name}`, nor any other: write `key = \"constant\"` or leave the key out"
        );
    }
    let known: Vec<_> = members
        .iter()
        .map(|member| match member {
            Member::Named(name) => format!("`{name}`"),
            Member::Unnamed(index) => format!("`{}`", index.index),
        })
        .collect();
    let noun = if fields.len() == 1 { "the field is" } else { "the fields are" };
    format!("there is no field `{name}`; {noun} {}", known.join(", "))
}

/// By its name: a macro sees no types. `key = self.field` takes the value as it is.
fn is_option(field: &Field) -> bool {
    let Type::Path(path) = &field.ty else { return false };
    path.path
        .segments
        .last()
        .is_some_and(|segment| segment.ident == Ident::new("Option", segment.ident.span()))
}
