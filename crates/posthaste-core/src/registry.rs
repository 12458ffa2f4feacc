//! Types to routes, for a domain that must not know about topics.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{Codec, Json};
use crate::envelope::Envelope;
use crate::publish::Publish;
use crate::{Error, Result};

type Encode = Box<dyn Fn(&dyn Any) -> Option<Result<Vec<u8>>> + Send + Sync>;
type KeyOf = Box<dyn Fn(&dyn Any) -> Option<String> + Send + Sync>;

/// Maps types to routes at start-up; [`Registry::of`] then gives the same [`Publish`] that a derived event gives.
///
/// ```
/// # use posthaste_core::registry::Registry;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Created { id: u32 }
///
/// let mut registry = Registry::new();
/// registry.register::<Created>("widget.created", "widgets")?.key_by(|created| created.id.to_string());
/// let envelope = registry.of(&Created { id: 7 })?.into_envelope()?;
/// assert_eq!((envelope.topic.as_str(), envelope.key.as_deref()), ("widgets", Some("7")));
/// assert!(registry.of(&"never registered").is_err());
/// # Ok::<_, posthaste_core::Error>(())
/// ```
#[derive(Default)]
pub struct Registry {
    routes: HashMap<TypeId, Entry>,
}

struct Entry {
    event_type: String,
    topic: String,
    version: u32,
    content_type: String,
    encode: Encode,
    key: Option<KeyOf>,
}

impl Registry {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Routes a type, written as JSON, under this event type to this topic.
    ///
    /// # Errors
    /// `Config` for an empty event type, an empty topic, or a type that has a route already.
    pub fn register<T: Serialize + DeserializeOwned + 'static>(
        &mut self,
        event_type: &str,
        topic: &str,
    ) -> Result<Route<'_, T>> {
        self.register_with::<T, Json>(event_type, topic)
    }

    /// Routes a type with a codec of its own.
    ///
    /// # Errors
    /// As [`register`](Registry::register).
    pub fn register_with<T: 'static, C: Codec<T> + 'static>(
        &mut self,
        event_type: &str,
        topic: &str,
    ) -> Result<Route<'_, T>> {
        let name = type_name::<T>();
        if event_type.is_empty() {
            return Err(Error::config(format!("register {name}: the event type is empty")));
        }
        if topic.is_empty() {
            return Err(Error::config(format!("register {name}: the topic is empty")));
        }
        if let Some(before) = self.routes.get(&TypeId::of::<T>()) {
            return Err(Error::config(format!(
                "register {name} as {event_type:?}: it is registered already, as {:?}",
                before.event_type
            )));
        }
        let entry = Entry {
            event_type: event_type.to_owned(),
            topic: topic.to_owned(),
            version: 1,
            content_type: C::CONTENT_TYPE.to_owned(),
            encode: Box::new(|value| value.downcast_ref::<T>().map(C::encode)),
            key: None,
        };
        Ok(Route { entry: self.routes.entry(TypeId::of::<T>()).or_insert(entry), of: PhantomData })
    }

    /// What to publish for this value.
    ///
    /// # Errors
    /// `Config` when its type was never registered; `Rejected` when it cannot be encoded.
    pub fn of<T: 'static>(&self, value: &T) -> Result<Publish> {
        let unknown = || {
            Error::config(format!(
                "publish {0}: it is not registered; call registry.register::<{0}>(…)",
                type_name::<T>()
            ))
        };
        let route = self.routes.get(&TypeId::of::<T>()).ok_or_else(unknown)?;
        let payload = (route.encode)(value).ok_or_else(unknown)??;
        let mut envelope = Envelope::new(&route.event_type, payload);
        envelope.topic.clone_from(&route.topic);
        envelope.version = route.version;
        envelope.content_type.clone_from(&route.content_type);
        envelope.key = route.key.as_ref().and_then(|key| key(value));
        Ok(Publish::from(envelope))
    }
}

/// A route that can be refined right after it was registered.
pub struct Route<'a, T> {
    entry: &'a mut Entry,
    of: PhantomData<fn(&T)>,
}

impl<T: 'static> Route<'_, T> {
    /// Gives every event of this type the same key.
    pub fn key(self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.entry.key = Some(Box::new(move |_| Some(key.clone())));
        self
    }

    /// Takes the key from the value.
    pub fn key_by(self, key: impl Fn(&T) -> String + Send + Sync + 'static) -> Self {
        self.entry.key = Some(Box::new(move |value| value.downcast_ref::<T>().map(&key)));
        self
    }

    /// Says which version of its schema the payload has.
    pub fn version(self, version: u32) -> Self {
        self.entry.version = version;
        self
    }

    /// Calls the payload's encoding so.
    pub fn content_type(self, content_type: impl Into<String>) -> Self {
        self.entry.content_type = content_type.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, serde::Deserialize)]
    struct Created;

    #[test]
    fn mistakes_are_told_at_start_up() {
        let mut registry = Registry::new();
        assert!(registry.register::<Created>("", "widgets").is_err());
        assert!(registry.register::<Created>("widget.created", "").is_err());
        assert!(registry.register::<Created>("widget.created", "widgets").is_ok());
        let twice = registry.register::<Created>("widget.made", "widgets").err().unwrap().to_string();
        assert!(twice.contains("registered already, as \"widget.created\""), "{twice}");
    }

    #[test]
    fn a_static_key_and_a_version_are_kept() {
        let mut registry = Registry::new();
        registry.register::<Created>("widget.created", "widgets").unwrap().key("created").version(3);
        let envelope = registry.of(&Created).unwrap().into_envelope().unwrap();
        assert_eq!((envelope.key.as_deref(), envelope.version), (Some("created"), 3));
    }
}
