//! What a person reads when the server has started.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;

use crate::config::Config;
use crate::keys::{ApiKey, FirstKey, file};

/// Where the server listens, where its data is, and how to try it.
pub(super) struct Welcome<'a> {
    /// Where it really listens.
    pub(super) address: SocketAddr,
    /// Where health and metrics are, if they have an address of their own.
    pub(super) admin: Option<SocketAddr>,
    /// What was configured.
    pub(super) config: &'a Config,
    /// The key, if this is the first start.
    pub(super) key: &'a FirstKey,
}

impl Welcome<'_> {
    /// Prints it on stderr, as stdout is for what lanes deliver there. A failed write does not stop the
    /// server.
    ///
    /// Shows the key on a terminal only. Elsewhere the key would stay in a journal or in the log of a
    /// container.
    pub(super) fn print(&self) {
        let shows_key = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let _ = std::io::stderr().lock().write_all(self.text(shows_key).as_bytes());
    }

    fn text(&self, shows_key: bool) -> String {
        let mut text = format!("posthaste {}\n", env!("CARGO_PKG_VERSION"));
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<10} {value}");
        };
        line("listening", &format!("http://{}", self.address));
        if let Some(admin) = self.admin {
            line("admin", &format!("http://{admin} (health and metrics, without a key: keep it private)"));
        }
        let data = self.config.store.database_file();
        line("data", &data.map_or("in the configured store".to_owned(), |file| file.display().to_string()));
        line("lanes", &self.lanes());
        match self.key {
            FirstKey::Known => {}
            FirstKey::Adopted(file) => line("API key", &format!("the one in {}", file.display())),
            FirstKey::Written(key, file) if shows_key => {
                line("API key", &format!("{}  (shown once; kept in {})", key.expose(), file.display()));
            }
            FirstKey::Written(_, file) => line("API key", &format!("kept in {}", file.display())),
            FirstKey::Unwritten(key, why) if shows_key => {
                line("API key", &format!("{}  (shown once: write it down; {why})", key.expose()));
            }
            FirstKey::Unwritten(_, why) => line("API key", &lost(why)),
        }
        line("try it", &self.curl(shows_key));
        text
    }

    fn lanes(&self) -> String {
        let names: Vec<&str> = self.config.lanes.keys().map(|name| name.as_str()).collect();
        if names.is_empty() {
            return "none: events are kept; add [lanes.NAME] to posthaste.toml to deliver them".to_owned();
        }
        names.join(", ")
    }

    /// The key file, if the command line would use it too: not one that another user wrote, and not a missing
    /// one.
    fn kept_key(&self) -> Option<PathBuf> {
        self.config.store.key_file().filter(|file| holds_a_key(file))
    }

    fn curl(&self, shows_key: bool) -> String {
        let key = match self.key {
            FirstKey::Unwritten(key, _) if shows_key => key.expose().to_owned(),
            FirstKey::Unwritten(..) => "$KEY".to_owned(),
            FirstKey::Adopted(file) | FirstKey::Written(_, file) => from_file(file),
            FirstKey::Known => self.kept_key().as_deref().map_or("$KEY".to_owned(), from_file),
        };
        format!(
            r#"curl -H "Authorization: Bearer {key}" -H "Content-Type: application/json" -d '{{"type":"hello","data":{{"to":"world"}}}}' http://{}/v1/events"#,
            reachable(self.address)
        )
    }
}

fn holds_a_key(file: &Path) -> bool {
    file::own(file).is_ok_and(|text| text.is_some_and(|text| ApiKey::parse(text.expose_secret()).is_some()))
}

/// Describes a key that is neither in a file nor shown, so that no user knows it.
fn lost(why: &str) -> String {
    format!("none is known: {why}, and this is not a terminal; make one with posthaste key add NAME")
}

fn from_file(file: &Path) -> String {
    let text = file.display().to_string();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let quoted = if text.bytes().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) };
    format!("$(cat {quoted})")
}

/// An address that a client on this machine can connect to: "everywhere" is not one.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn text(address: &str, key: &FirstKey) -> String {
        shown(address, key, true)
    }

    fn shown(address: &str, key: &FirstKey, shows_key: bool) -> String {
        let config = Config::defaults();
        Welcome { address: address.parse().unwrap(), admin: None, config: &config, key }.text(shows_key)
    }

    #[test]
    fn without_a_terminal_the_key_is_not_shown_but_where_it_is() {
        let key = ApiKey::generate().unwrap();
        let written = FirstKey::Written(key.clone(), "/data/posthaste.key".into());
        let unwritten = FirstKey::Unwritten(key.clone(), "cannot write x".into());
        for (first, says) in [(&written, "kept in /data/posthaste.key\n"), (&unwritten, "posthaste key add")]
        {
            let text = shown("127.0.0.1:7070", first, false);
            assert!(!text.contains(key.expose()), "{text}");
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn the_key_is_shown_at_the_first_start_only() {
        let key = ApiKey::generate().unwrap();
        let first = text("127.0.0.1:7070", &FirstKey::Written(key.clone(), "posthaste.key".into()));
        assert!(first.contains(key.expose()) && first.contains("http://127.0.0.1:7070\n"), "{first}");
        assert!(first.contains("Bearer $(cat posthaste.key)"), "{first}");
        let later = text("127.0.0.1:7070", &FirstKey::Known);
        assert!(!later.contains("API key") && later.contains("Bearer $KEY"), "{later}");
    }

    #[test]
    fn a_later_start_names_a_key_file_only_if_the_command_line_would_use_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::defaults();
        config.store.url = format!("sqlite://{}/posthaste.db", folder.path().display()).into();
        let address = "127.0.0.1:7070".parse().unwrap();
        let shown = || Welcome { address, admin: None, config: &config, key: &FirstKey::Known }.text(true);
        assert!(shown().contains("Bearer $KEY"), "there is no file");
        let file = folder.path().join("posthaste.key");
        write(&file, ApiKey::generate().unwrap().expose()).unwrap();
        set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(shown().contains("Bearer $KEY"), "others may read and replace it");
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert!(shown().contains(&format!("$(cat {})", file.display())), "{}", shown());
    }

    #[test]
    fn the_curl_line_works_wherever_it_listens_and_wherever_the_key_is() {
        let adopted = FirstKey::Adopted("/it's here/posthaste.key".into());
        let shown = text("0.0.0.0:80", &adopted);
        assert!(shown.contains("http://127.0.0.1:80/v1/events"), "{shown}");
        assert!(shown.contains(r"$(cat '/it'\''s here/posthaste.key')"), "{shown}");
        let key = ApiKey::generate().unwrap();
        let unwritten = text("[::]:80", &FirstKey::Unwritten(key.clone(), "cannot write x".into()));
        assert!(unwritten.contains(&format!("Bearer {}\"", key.expose())), "{unwritten}");
        assert!(unwritten.contains("http://[::1]:80/v1/events"), "{unwritten}");
    }
}
