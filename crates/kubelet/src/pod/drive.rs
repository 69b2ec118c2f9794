//! Starts one instance of a container and follows it, telling the pod's worker what happens.
//!
//! In come the pod, its sandbox and which container; out go [`Word`]s. All waiting (image, files,
//! runtime, hooks) happens here, so that the worker never waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ironsail_container::StartError;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::context::Context;
use crate::event::{self, Severity};
use crate::field::Facts;
use crate::log;
use crate::log::writer::Log;
use crate::probe::{FromNode, Subject};

use super::container::{Instance, Notice, Stop, Task};
use super::launch::{Launch, PodFiles, main_address};
use super::machine::{Ended, Fault, FaultKind};
use super::sandbox::Sandbox;

/// What the worker hears of an instance.
pub enum Word {
    /// A stop was ordered before it started.
    NotStarted,
    Faulted(Fault),
    Created {
        instance: Arc<Instance>,
        subject: Subject,
        at: Timestamp,
    },
    Notice(Notice),
}

pub struct Drive {
    pub ctx: Arc<Context>,
    pub pod: Arc<Pod>,
    pub container: Arc<Container>,
    pub sandbox: Arc<Sandbox>,
    pub restart: u32,
    pub stop: watch::Receiver<Option<Stop>>,
    pub grace: Duration,
}

impl Drive {
    pub async fn run(self, tell: impl Fn(Word)) {
        if self.stop.borrow().is_some() {
            return tell(Word::NotStarted);
        }
        match self.start().await {
            Err(Failed::Fault(fault)) => {
                self.tell_fault(&fault);
                tell(Word::Faulted(fault));
            }
            Err(Failed::Start(error)) => {
                self.note(Severity::Warning, "Failed", format!("Error: {error}"));
                tell(Word::Notice(Notice::Ended(self.start_error(&error))));
            }
            Ok(task) => {
                let (instance, subject, at) =
                    (task.instance.clone(), task.subject.clone(), task.started_at);
                tell(Word::Created { instance, subject, at });
                task.run(|notice| tell(Word::Notice(notice))).await;
            }
        }
    }

    async fn start(&self) -> Result<Task, Failed> {
        let ctx = &self.ctx;
        let name = &self.container.name;
        let image_name = self.container.image.as_deref().unwrap_or_default();
        let image = ctx
            .images
            .find(image_name)
            .map_err(|e| Fault { kind: FaultKind::Image, message: e.to_string() })?;
        self.note(
            Severity::Normal,
            "Pulled",
            format!("Container image \"{image_name}\" already present on machine"),
        );
        let id = self.container_id();
        let termination = self.termination_file()?;
        let services = ctx.service_variables(&self.pod);
        let facts = Facts {
            pod: &self.pod,
            pod_ips: &self.sandbox.link.addresses,
            host_ips: &ctx.host_ips,
            allocatable: &ctx.allocatable,
        };
        let volumes = self.sandbox.volumes.lock().await;
        let (hosts, resolv_conf, hostname) =
            (self.sandbox.hosts(), self.sandbox.resolv_conf(), self.sandbox.hostname());
        let spec = Launch {
            pod: &self.pod,
            container: &self.container,
            id: id.clone(),
            image: &image,
            volumes: &volumes,
            objects: &*self.sandbox.objects,
            services: &services,
            facts,
            link: &self.sandbox.link,
            pids: self.sandbox.pids.clone(),
            node: &ctx.config.node.name,
            domain: &ctx.config.dns.domain,
            masked: &ctx.config.masked,
            ids: &ctx.config.ids,
            files: PodFiles {
                hosts: &hosts,
                resolv_conf: &resolv_conf,
                hostname: &hostname,
                termination: &termination,
            },
        }
        .spec()?;
        drop(volumes);
        if let Some(why) = ctx.runtime.limits_refused().filter(|_| spec.limits.is_bounding()) {
            let message = format!("The limits of the container are not kept: {why}");
            self.note(Severity::Warning, "LimitsNotKept", message);
        }
        let log = self.open_log()?;
        self.note(Severity::Normal, "Created", "Container created");
        let mut started = ctx.runtime.start(spec).await.map_err(Failed::Start)?;
        self.note(Severity::Normal, "Started", "Container started");
        let instance = Arc::new(Instance {
            id: format!("podlet://{id}"),
            process: started.process.clone(),
            log,
            tty: self.container.tty == Some(true),
            stdin: parking_lot::Mutex::new(started.stdio.stdin.take()),
        });
        let subject = Subject {
            container: self.container.clone(),
            ip: main_address(&self.sandbox.link),
            process: started.process.clone(),
            dial: Arc::new(FromNode(ctx.network.clone())),
        };
        let clock = ctx.clone();
        Ok(Task {
            subject,
            started,
            instance,
            started_at: ctx.now(),
            about: event::about(&self.pod, Some(name)),
            recorder: ctx.recorder.clone(),
            stop: self.stop.clone(),
            grace: self.grace,
            termination_file: termination,
            now: Arc::new(move || clock.now()),
        })
    }

    /// 64 hexadecimal digits, as other runtimes have.
    fn container_id(&self) -> String {
        let meta = &self.pod.metadata;
        let stamp = self.ctx.stamp();
        let seed = format!(
            "{}/{}/{}/{stamp}",
            meta.uid.as_deref().unwrap_or_default(),
            self.container.name,
            self.restart
        );
        Sha256::digest(seed.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn termination_file(&self) -> Result<PathBuf, Fault> {
        let directory = self.sandbox.directory.join("containers").join(&self.container.name);
        let file = directory.join(format!("{}.termination", self.restart));
        let made = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&file, ""));
        // Whatever user the program runs as may leave its last words.
        let made = made.and_then(|()| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666))
        });
        made.map(|()| file).map_err(|e| create_fault(&format!("making the termination file: {e}")))
    }

    fn open_log(&self) -> Result<Arc<Log>, Fault> {
        let meta = &self.pod.metadata;
        let text = |v: &Option<String>| v.clone().unwrap_or_default();
        let directory =
            self.ctx.log_directory(&text(&meta.namespace), &text(&meta.name), &text(&meta.uid));
        log::prune(&directory, &self.container.name, self.restart);
        let path = log::path(&directory, &self.container.name, self.restart);
        Log::create(path, self.ctx.config.log, self.ctx.config.clock.clone())
            .map_err(|e| create_fault(&format!("making the log file: {e}")))
    }

    fn start_error(&self, error: &StartError) -> Ended {
        Ended {
            // What containerd reports for every program that could not be started.
            code: 128,
            signal: None,
            reason: "StartError".to_owned(),
            message: Some(format!("failed to start container: {error}")),
            container_id: None,
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Some(self.ctx.now()),
        }
    }

    fn tell_fault(&self, fault: &Fault) {
        let image = self.container.image.as_deref().unwrap_or_default();
        match fault.kind {
            FaultKind::Image => {
                self.note(
                    Severity::Warning,
                    "Failed",
                    format!("Failed to pull image \"{image}\": {}", fault.message),
                );
                self.note(Severity::Warning, "Failed", "Error: ErrImagePull");
            }
            _ => self.note(Severity::Warning, "Failed", format!("Error: {}", fault.message)),
        }
    }

    fn note(&self, severity: Severity, reason: &'static str, message: impl Into<String>) {
        let about = event::about(&self.pod, Some(&self.container.name));
        self.ctx.recorder.note(about, severity, reason, message);
    }
}

enum Failed {
    Fault(Fault),
    Start(StartError),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn create_fault(message: &str) -> Fault {
    Fault { kind: FaultKind::Create, message: message.to_owned() }
}
