//! What a topic may be called.

/// Kafka takes no longer name.
const NAME_BYTES_MAX: usize = 249;

/// Checks the name of a topic.
///
/// # Errors
/// Why it is none.
pub(super) fn check(name: &str) -> Result<(), String> {
    let is_fit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(odd) = name.chars().find(|c| !is_fit(c)) {
        return Err(format!("{odd:?} is in it, and Kafka takes ASCII letters, digits, and . _ -"));
    }
    match name {
        "" => Err("it is empty".to_owned()),
        "." | ".." => Err("Kafka takes neither . nor ..".to_owned()),
        _ if name.len() > NAME_BYTES_MAX => {
            Err(format!("it has {} bytes, and Kafka takes {NAME_BYTES_MAX}", name.len()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafka_takes_few_characters() {
        for name in ["orders", "Shop.orders-1_2", "..."] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a b", "a/b", "a:b", "ünï", "a\0", &"x".repeat(250)] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
