//! Ingresses in the store: what they stand for goes the way of objects that users wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use ironsail_api::{Kind, ObjectKey, Resource, kube};

use super::Store;
use super::inventory::same;
use crate::ingress::{self, Context};

impl Store {
    pub(super) fn set_ingress(
        &mut self,
        key: &ObjectKey,
        object: Option<Arc<Resource<kube::Ingress>>>,
    ) {
        if same(self.inventory.ingresses.get(key), object.as_ref()) {
            return;
        }
        match object {
            Some(object) => drop(self.inventory.ingresses.insert(key.clone(), object)),
            None => drop(self.inventory.ingresses.remove(key)),
        }
        self.stand_in(key);
    }

    pub(super) fn set_ingress_class(
        &mut self,
        key: &ObjectKey,
        object: Option<Arc<Resource<kube::IngressClass>>>,
    ) {
        if same(self.inventory.ingress_classes.get(key), object.as_ref()) {
            return;
        }
        match object {
            Some(object) => drop(self.inventory.ingress_classes.insert(key.clone(), object)),
            None => drop(self.inventory.ingress_classes.remove(key)),
        }
        let named =
            |ingress: &Resource<kube::Ingress>| ingress.spec.ingress_class_name == *key.name;
        let all = self.inventory.ingresses.iter();
        let all: Vec<ObjectKey> =
            all.filter(|(_, ingress)| named(ingress)).map(|(key, _)| key.clone()).collect();
        for key in all {
            self.stand_in(&key);
        }
    }

    /// After a change of a Service: Ingresses may call its ports by name.
    pub(super) fn ports_changed(&mut self, service: &ObjectKey) {
        let all = self.inventory.ingresses.iter();
        let all = all.filter(|(key, ingress)| {
            key.namespace == service.namespace && ingress::names_ports(&ingress.spec)
        });
        let all: Vec<ObjectKey> = all.map(|(key, _)| key.clone()).collect();
        for key in all {
            self.stand_in(&key);
        }
    }

    /// After a change of the mesh configuration.
    pub(super) fn all_ingresses(&mut self) {
        let all: Vec<ObjectKey> = self.inventory.ingresses.keys().cloned().collect();
        for key in all {
            self.stand_in(&key);
        }
    }

    /// Puts what stands for the Ingress in the place of what stood for it before.
    fn stand_in(&mut self, key: &ObjectKey) {
        let objects = self.objects_of(key);
        let mut now = BTreeSet::new();
        for object in objects {
            let own = object.key(&key.cluster);
            now.insert(own.clone());
            self.put_config(&own, object);
        }
        let before = match now.is_empty() {
            true => self.inventory.stand_ins.remove(key),
            false => self.inventory.stand_ins.insert(key.clone(), now.clone()),
        };
        for gone in before.unwrap_or_default().difference(&now) {
            self.remove_config(gone);
        }
    }

    fn objects_of(&self, key: &ObjectKey) -> Vec<ironsail_api::Object> {
        let Some(object) = self.inventory.ingresses.get(key) else { return Vec::new() };
        let class = ObjectKey {
            cluster: key.cluster.clone(),
            kind: Kind::IngressClass,
            namespace: "".into(),
            name: object.spec.ingress_class_name.as_str().into(),
        };
        let class = self.inventory.ingress_classes.get(&class).map(|class| &class.spec);
        let mesh = &self.current.mesh;
        if !ingress::is_ours(object, class, &mesh.config) {
            return Vec::new();
        }
        let context = Context {
            mesh: &mesh.config,
            namespace: mesh.root_namespace.as_str(),
            domain: &self.current.settings.domain,
        };
        ingress::convert(object, context, |service, port| {
            let service = ObjectKey {
                cluster: key.cluster.clone(),
                kind: Kind::Service,
                namespace: key.namespace.clone(),
                name: service.into(),
            };
            let service = self.inventory.services.get(&service)?;
            let found = service.spec.ports.iter().find(|own| own.name == port)?;
            u16::try_from(found.port).ok()
        })
    }
}
