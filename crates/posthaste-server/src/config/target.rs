//! `[targets.NAME]`: where lanes deliver to.

use secrecy::SecretString;

use super::section::Section;

/// A target with a name: one connection for all lanes that name it.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Its address; may hold a password.
    pub url: SecretString,
}

impl TargetConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let config = Self { url: section.secret("url") };
        section.require_url("url", &config.url);
        config
    }
}
