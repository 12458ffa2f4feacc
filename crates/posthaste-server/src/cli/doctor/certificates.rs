//! Certificates: until when those in files are valid, and those of the servers that were met.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::findings::{Finding, Mend};
use posthaste::time::{Clock as _, SystemClock, Timestamp};
use secrecy::ExposeSecret as _;

use crate::config::Config;
use crate::config::target::addresses;
use crate::http::publish::percent::unescaped;

/// With less than this left somebody should renew it.
const SOON: Duration = Duration::from_secs(30 * 86_400);
/// How much of a file is read: the bundle of a system has a few hundred thousand bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What a file of certificates is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Whom to trust: one that is valid is enough.
    Trust,
    /// Who we are: the first in the file is ours.
    Own,
}

/// The files that the configuration names.
pub(super) fn of_files(config: &Config) -> Vec<Finding> {
    let mut files: Vec<(String, Use, PathBuf)> = Vec::new();
    files.extend(config.store.tls_ca.iter().map(|file| ("store".to_owned(), Use::Trust, file.clone())));
    let store = ("store".to_owned(), config.store.url.expose_secret().to_owned());
    for (whose, url) in std::iter::once(store).chain(addresses(config)) {
        files.extend(named(&url).into_iter().map(|(purpose, file)| (whose.clone(), purpose, file)));
    }
    let now = SystemClock.now();
    files.iter().filter_map(|(whose, purpose, file)| in_file(whose, *purpose, file, now)).collect()
}

/// The servers that were met while everything else was looked at.
pub(super) fn of_servers() -> Vec<Finding> {
    let now = SystemClock.now();
    let told = |(name, der): (String, Vec<u8>)| {
        let renew = "renew the certificate of the server: connections will fail from then on";
        Some(verdict(&format!("server {name}: certificate"), "it", not_after(&der)?, now, renew))
    };
    posthaste::certificates::met().into_iter().filter_map(told).collect()
}

/// The files of certificates that a URL names.
fn named(url: &str) -> Vec<(Use, PathBuf)> {
    // A question mark in the password is none of the query.
    let host = url.find('@').unwrap_or(0);
    let Some((_, query)) = url[host..].split_once('?') else { return Vec::new() };
    let of = |setting: &str| {
        let (name, value) = setting.split_once('=')?;
        let purpose = match name {
            "sslrootcert" | "ssl-ca" => Use::Trust,
            "sslcert" | "ssl-cert" => Use::Own,
            _ => return None,
        };
        // A word of its own: the CAs of the system.
        (value != "system").then(|| (purpose, PathBuf::from(OsString::from_vec(unescaped(value.as_bytes())))))
    };
    query.split('&').filter_map(of).collect()
}

/// Whether a file's certificates are valid. One that cannot be read is told of by whoever needs it.
fn in_file(whose: &str, purpose: Use, file: &Path, now: Timestamp) -> Option<Finding> {
    if fs::metadata(file).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    let text = fs::read(file).ok()?;
    let mut ends = until(&String::from_utf8_lossy(&text)).into_iter();
    let (until, renew) = match purpose {
        Use::Own => (ends.next()?, "renew it: the server refuses connections with it from then on"),
        Use::Trust => (ends.max()?, "put the new CA into the file: nobody is trusted from then on"),
    };
    let seen = file.display().to_string();
    Some(verdict(&format!("{whose}: certificate"), &seen, until, now, renew))
}

fn verdict(check: &str, what: &str, until: Timestamp, now: Timestamp, renew: &str) -> Finding {
    let mend = || Mend::words(renew);
    match until {
        _ if until <= now => Finding::failure(check, format!("{what} was valid until {until}"), mend()),
        _ if until.since(now) < SOON => {
            let days = until.since(now).as_secs() / 86_400;
            Finding::warning(check, format!("{what} is valid for {days} days more, until {until}"), mend())
        }
        _ => Finding::ok(check, format!("{what} is valid until {until}")),
    }
}

/// Until when each certificate of a PEM file is valid, in their order.
fn until(pem: &str) -> Vec<Timestamp> {
    let bodies = pem.split(BEGIN).skip(1).filter_map(|rest| rest.split_once(END));
    let der = bodies.filter_map(|(body, _)| {
        let digits: String = body.split_whitespace().collect();
        STANDARD.decode(digits).ok()
    });
    der.filter_map(|der| not_after(&der)).collect()
}

/// Until when a certificate is valid (RFC 5280 §4.1): version, serial number, algorithm and issuer stand before its time.
fn not_after(der: &[u8]) -> Option<Timestamp> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let inner =
        |der: &[u8]| element(der).filter(|(tag, ..)| *tag == SEQUENCE).map(|(_, inner, _)| inner.to_vec());
    let certificate = inner(&inner(der)?)?;
    let mut rest = certificate.as_slice();
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let validity = inner(rest)?;
    let (tag, text, _) = element(element(&validity)?.2)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// The first element: its tag, what is in it, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (inner, rest) = rest.split_at_checked(length)?;
    Some((tag, inner, rest))
}

/// `YYMMDDHHMMSSZ`, or with the whole year.
fn time(tag: u8, text: &str) -> Option<Timestamp> {
    let whole = match tag {
        // RFC 5280 §4.1.2.5.1: from 50 on it is the last century.
        0x17 if text.len() == 13 && text.is_ascii() => {
            let century = if text.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            format!("{century}{text}")
        }
        0x18 if text.len() == 15 && text.is_ascii() => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| &whole[from..to];
    format!("{}-{}-{}T{}:{}:{}Z", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 12), part(12, 14))
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use posthaste::findings::Verdict;

    use super::*;

    /// Valid until 2026-01-02 and until 2126-01-01: openssl made them.
    const EXPIRED: &str = include_str!("../../../tests/it/doctor/certificates/expired.pem");
    const LASTING: &str = include_str!("../../../tests/it/doctor/certificates/lasting.pem");

    #[test]
    fn a_certificate_says_until_when_it_is_valid() {
        let ends = until(&format!("words\n{LASTING}words\n{EXPIRED}"));
        assert_eq!(ends.len(), 2);
        assert_eq!(ends[0], "2126-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(ends[1], "2026-01-02T00:00:00Z".parse().unwrap());
        for broken in ["", BEGIN, &EXPIRED.replace("MII", "AAA"), &EXPIRED[..200]] {
            assert!(until(broken).is_empty(), "{broken}");
        }
        assert!((0..200).all(|length| not_after(&vec![0x30; length]).is_none()));
    }

    #[test]
    fn thirty_days_before_its_end_there_is_a_warning_and_then_a_failure() {
        let end: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let day = Duration::from_secs(86_400);
        for (now, expected) in [
            (end.before(31 * day), Verdict::Ok),
            (end.before(29 * day), Verdict::Warning),
            (end, Verdict::Failure),
            (end.after(day), Verdict::Failure),
        ] {
            assert_eq!(verdict("c", "f", end, now, "renew it").verdict, expected, "{now}");
        }
    }

    #[test]
    fn a_url_names_files_of_certificates() {
        let url =
            "postgres://u:p?sslcert=x@h/d?a=1&sslrootcert=%2Fetc%2Fc%20a.pem&sslcert=own.pem&sslkey=k.pem";
        assert_eq!(named(url), [(Use::Trust, "/etc/c a.pem".into()), (Use::Own, "own.pem".into())]);
        assert_eq!(named("redis://h?sslrootcert=system"), []);
    }
}
