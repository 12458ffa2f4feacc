//! API keys: how they look, how they are kept, and the one that the first start makes.
//!
//! A key is `ph_` and 43 letters and digits: 256 random bits. The store keeps its SHA-256 only; the text itself is in a
//! file that nobody else may read, beside the embedded database or in the current folder, where the command line finds it.

pub(crate) mod file;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste::schema::Keyring;
use posthaste::{BoxFuture, Error, ErrorKind, Result};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "ph_";
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 43 digits of 62 kinds hold 256 bits.
const DIGITS_COUNT: usize = 43;
/// The largest multiple of 62 below 256: bytes from here on would make some digits likelier than others.
const FAIR_BELOW: u8 = 248;
/// The name under which the store knows the key of the first start.
const FIRST_NAME: &str = "first";
const NO_PLACE: &str = "the store is not a file, so there is no place beside it";

/// An API key. Its text is never printed by accident: there is no `Display`, and `Debug` hides it.
#[derive(Clone)]
pub struct ApiKey(SecretString);

impl ApiKey {
    /// A new key of 256 bits from the system's random source.
    ///
    /// # Errors
    /// `Unavailable` when the system has no random source.
    pub fn generate() -> Result<Self> {
        let mut text = PREFIX.to_owned();
        while text.len() < PREFIX.len() + DIGITS_COUNT {
            let mut bytes = [0; 64];
            getrandom::fill(&mut bytes)
                .map_err(|error| Error::unavailable("read the system's random source").because(error))?;
            let digits = bytes.iter().filter(|byte| **byte < FAIR_BELOW);
            let room = PREFIX.len() + DIGITS_COUNT - text.len();
            text.extend(digits.map(|byte| char::from(DIGITS[usize::from(byte % 62)])).take(room));
        }
        Ok(Self(text.into()))
    }

    /// The key with this text, if it looks like one.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let fits = digits.len() == DIGITS_COUNT && digits.bytes().all(|b| b.is_ascii_alphanumeric());
        fits.then(|| Self(text.to_owned().into()))
    }

    /// The key's text.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What the store keeps of it.
    pub fn hash(&self) -> [u8; 32] {
        hash_of(self.expose())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}

/// What the store keeps of a key with this text.
pub fn hash_of(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Keys of a process whose store keeps none: an outbox table of somebody else. They come out of the key file at every start.
#[derive(Debug, Default)]
pub struct ProcessKeys(Mutex<Vec<(String, [u8; 32])>>);

impl ProcessKeys {
    fn keys(&self) -> MutexGuard<'_, Vec<(String, [u8; 32])>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keyring for ProcessKeys {
    fn add<'a>(&'a self, name: &'a str, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<()>> {
        self.keys().push((name.to_owned(), *hash));
        Box::pin(async { Ok(()) })
    }

    fn name_of<'a>(&'a self, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>> {
        let name = self.keys().iter().find(|(_, known)| known == hash).map(|(name, _)| name.clone());
        Box::pin(async move { Ok(name) })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64>> {
        let count = self.keys().len() as u64;
        Box::pin(async move { Ok(count) })
    }

    fn hashes(&self, limit: u32) -> BoxFuture<'_, Result<Vec<[u8; 32]>>> {
        let hashes = self.keys().iter().rev().take(limit as usize).map(|(_, hash)| *hash).collect();
        Box::pin(async move { Ok(hashes) })
    }
}

/// What a start found out about keys.
#[derive(Debug)]
pub enum FirstKey {
    /// The store has keys; this is not its first start.
    Known,
    /// The store had none, but the key file did: its key is used from now on.
    Adopted(PathBuf),
    /// A new key was made and written to the file.
    Written(ApiKey, PathBuf),
    /// A new key was made; there is no file, and why.
    Unwritten(ApiKey, String),
}

/// Makes a key if the store has none.
///
/// The file is written before the store learns the hash: a crash in between leaves a key that the next start adopts,
/// rather than a store whose only key nobody knows.
///
/// # Errors
/// What the store says.
pub async fn first_start(keyring: &(impl Keyring + ?Sized), file: Option<&Path>) -> Result<FirstKey> {
    if keyring.count().await? > 0 {
        return Ok(FirstKey::Known);
    }
    let found = file.map_or_else(|| Err(NO_PLACE.to_owned()), adoptable);
    if let (Ok(Some(key)), Some(file)) = (&found, file) {
        keyring.add(FIRST_NAME, &key.hash()).await?;
        return Ok(FirstKey::Adopted(file.to_owned()));
    }
    let key = ApiKey::generate()?;
    let written = found.and_then(|_| match file {
        Some(file) => {
            file::write(file, &key).map_err(|error| format!("cannot write {}: {error}", file.display()))
        }
        None => Err(NO_PLACE.to_owned()),
    });
    if let Err(error) = keyring.add(FIRST_NAME, &key.hash()).await {
        let is_ours = written.is_ok();
        if let Some(file) = file.filter(|_| is_ours && error.kind() == ErrorKind::Conflict) {
            // Another server on the same store was faster, and has shown its key: this one opens nothing.
            let _ = fs::remove_file(file);
        }
        return if error.kind() == ErrorKind::Conflict { Ok(FirstKey::Known) } else { Err(error) };
    }
    Ok(match (written, file) {
        (Ok(()), Some(file)) => FirstKey::Written(key, file.to_owned()),
        (Err(why), _) => FirstKey::Unwritten(key, why),
        (Ok(()), None) => FirstKey::Unwritten(key, NO_PLACE.to_owned()),
    })
}

/// The key in the file, if it may be used; `None` if there is no file yet.
fn adoptable(file: &Path) -> std::result::Result<Option<ApiKey>, String> {
    let Some(text) = file::own(file).map_err(|refused| refused.to_string())? else { return Ok(None) };
    let key = ApiKey::parse(text.expose_secret());
    key.map(Some).ok_or_else(|| format!("{} holds no API key; remove it", file.display()))
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write as _};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_has_256_random_bits_and_hides_itself() {
        let (key, other) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        assert_eq!(key.expose().len(), 46);
        assert!(ApiKey::parse(key.expose()).is_some());
        assert_ne!(key.expose(), other.expose());
        assert!(!format!("{key:?}").contains(key.expose()));
        for wrong in
            ["", "ph_", "ph_short", &key.expose().replace("ph_", "xx_"), &format!("{}=", key.expose())]
        {
            assert!(ApiKey::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn the_first_start_writes_a_key_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.key");
        let hashes = ProcessKeys::default();
        let FirstKey::Written(key, path) = first_start(&hashes, Some(&file)).await.unwrap() else {
            panic!("no key was written");
        };
        assert_eq!(path, file);
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), key.expose());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(*hashes.keys(), [(FIRST_NAME.to_owned(), key.hash())]);
        assert!(matches!(first_start(&hashes, Some(&file)).await.unwrap(), FirstKey::Known));
    }

    #[tokio::test]
    async fn a_key_file_that_outlived_its_store_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.key");
        let FirstKey::Written(key, _) = first_start(&ProcessKeys::default(), Some(&file)).await.unwrap()
        else {
            panic!("no key was written");
        };
        let anew = ProcessKeys::default();
        assert!(matches!(first_start(&anew, Some(&file)).await.unwrap(), FirstKey::Adopted(_)));
        assert_eq!(*anew.keys(), [(FIRST_NAME.to_owned(), key.hash())]);
    }

    #[tokio::test]
    async fn a_file_that_others_can_read_or_a_missing_folder_gives_a_key_without_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let open_to_all = folder.path().join("posthaste.key");
        let stranger = ApiKey::generate().unwrap();
        fs::write(&open_to_all, stranger.expose()).unwrap();
        fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o644)).unwrap();
        let missing = folder.path().join("no/such/folder.key");
        for (file, says) in [(open_to_all.clone(), "others may read"), (missing, "cannot write")] {
            let hashes = ProcessKeys::default();
            let FirstKey::Unwritten(key, why) = first_start(&hashes, Some(&file)).await.unwrap() else {
                panic!("{} was written", file.display());
            };
            assert!(why.contains(says), "{why}");
            assert_ne!(key.expose(), stranger.expose());
            assert_eq!(*hashes.keys(), [(FIRST_NAME.to_owned(), key.hash())]);
        }
        assert_eq!(fs::read_to_string(&open_to_all).unwrap(), stranger.expose(), "it is left alone");
    }

    #[tokio::test]
    async fn a_key_file_of_another_user_is_not_adopted() {
        let trial = "keys::a_key_file_of_another_user_is_not_adopted";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.key");
        let theirs = ApiKey::generate().unwrap();
        fs::write(&file, theirs.expose()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if std::os::unix::fs::chown(&file, Some(65_534), None).is_err() {
            // Not eprintln!: the harness keeps that of a passing test to itself.
            writeln!(io::stderr(), "skipped: {trial}: only root can give a file away").unwrap();
            return;
        }
        let hashes = ProcessKeys::default();
        let FirstKey::Unwritten(key, why) = first_start(&hashes, Some(&file)).await.unwrap() else {
            panic!("the key of another user was adopted");
        };
        assert!(why.contains("belongs to user 65534"), "{why}");
        assert_ne!(key.expose(), theirs.expose());
        assert_eq!(*hashes.keys(), [(FIRST_NAME.to_owned(), key.hash())]);
    }
}
