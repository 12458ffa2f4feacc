//! What stores and brokers have in common about TLS: whom to trust, and who we are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_core::{Error, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The PEM files that a URL names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// The CAs to trust; none, or the word `system`: those of the system.
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate, for servers that ask for one.
    pub(crate) certificate: Option<PathBuf>,
    /// Its key.
    pub(crate) key: Option<PathBuf>,
}

impl Files {
    /// How to speak TLS with these files. `hint` says how a CA is named.
    ///
    /// # Errors
    /// `Config` for files that cannot be read, hold something else or do not fit together.
    pub(crate) fn client(&self, hint: &str) -> Result<ClientConfig> {
        // Named here and not taken from the process, in which there may be none or another one.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::config("TLS cannot be set up").because(error))?
            .with_root_certificates(trusted(self.ca.as_deref(), hint)?);
        match (&self.certificate, &self.key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let key_der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| {
                    // Why is not told: it may show a part of the key.
                    Error::config(format!("{} (sslkey) holds no private key in PEM", key.display()))
                })?;
                builder.with_client_auth_cert(chain, key_der).map_err(|error| {
                    Error::config(format!(
                        "{} and {} do not fit together",
                        certificate.display(),
                        key.display()
                    ))
                    .because(error)
                })
            }
            _ => Err(Error::config("a client certificate needs both sslcert and sslkey in the URL")),
        }
    }
}

/// The CAs in this file, or else those of the system.
fn trusted(file: Option<&Path>, hint: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (found, whose) = match file {
        Some(file) if file != Path::new("system") => (certificates(file)?, file.display().to_string()),
        _ => (rustls_native_certs::load_native_certs().certs, "the system".to_owned()),
    };
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return Err(Error::config(format!("{whose} has no CA certificate that can be used; {hint}")));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read(file)?;
    CertificateDer::pem_slice_iter(&text).collect::<std::result::Result<Vec<_>, _>>().map_err(|error| {
        Error::config(format!("{} is no PEM file of certificates", file.display())).because(error)
    })
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|error| Error::config(format!("{} cannot be read", file.display())).because(error))
}
