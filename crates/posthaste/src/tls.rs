//! What stores and brokers have in common about TLS: whom to trust, and who we are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_core::{Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::certificates;

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
        let roots = Arc::new(trusted(self.ca.as_deref(), hint)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| Error::config("TLS cannot be set up").because(error))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::config("TLS cannot be set up").because(error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Noting(verifier)));
        match (&self.certificate, &self.key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(certificate), Some(key)) => {
                let chain = certificates_in(certificate)?;
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

/// Verifies as it is usual, and remembers whom it has met.
#[derive(Debug)]
struct Noting(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        certificates::note(&server_name.to_str(), end_entity);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// The CAs in this file, or else those of the system.
fn trusted(file: Option<&Path>, hint: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (found, whose) = match file {
        Some(file) if file != Path::new("system") => (certificates_in(file)?, file.display().to_string()),
        _ => (rustls_native_certs::load_native_certs().certs, "the system".to_owned()),
    };
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return Err(Error::config(format!("{whose} has no CA certificate that can be used; {hint}")));
    }
    Ok(roots)
}

fn certificates_in(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read(file)?;
    CertificateDer::pem_slice_iter(&text).collect::<std::result::Result<Vec<_>, _>>().map_err(|error| {
        Error::config(format!("{} is no PEM file of certificates", file.display())).because(error)
    })
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|error| Error::config(format!("{} cannot be read", file.display())).because(error))
}
