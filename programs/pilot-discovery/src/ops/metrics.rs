//! Metrics under the names that Istio's control-plane dashboards read.
//!
//! Everything is counted elsewhere already; a scrape only reads it.

use std::sync::Weak;

use ironsail_ca::{Authority, Sample, SampleKind};
use ironsail_daemon::metrics::client::collector::Collector;
use ironsail_daemon::metrics::client::encoding::{DescriptorEncoder, NoLabelSet};
use ironsail_daemon::metrics::client::metrics::MetricType;
use ironsail_discovery::{BUCKETS, Distribution, Engine, Kind, SIZE_BUCKETS};
use ironsail_sys::clock::Clock;

use super::stray::strays;
use super::{Reviews, Watched};
use crate::version;
use crate::webhook::Counts;

/// Everything that is watched becomes a metric.
pub(crate) fn register(watched: &Watched) {
    let discovery = Discovery {
        engine: std::sync::Arc::downgrade(&watched.engine),
        authority: std::sync::Arc::downgrade(&watched.authority),
        reviews: watched.reviews.clone(),
        clock: Clock::system(),
    };
    watched.metrics.collect(discovery);
}

struct Discovery {
    engine: Weak<Engine>,
    authority: Weak<Authority>,
    reviews: Reviews,
    clock: Clock,
}

/// The registry wants to be able to print it.
impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Discovery")
    }
}

/// Writes one family.
struct Family<'a, 'b> {
    encoder: &'a mut DescriptorEncoder<'b>,
}

impl Family<'_, '_> {
    fn write(
        &mut self,
        (name, help, kind): (&str, &str, MetricType),
        rows: &[(&[(&str, &str)], f64)],
    ) -> std::fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in rows {
            // Counters too are written as gauges, whose names stay as they are.
            match labels.is_empty() {
                true => metric.encode_gauge(value)?,
                false => {
                    let labels: Vec<(String, String)> =
                        labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
                    metric.encode_family(&labels)?.encode_gauge(value)?;
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, name: &str, help: &str, kind: MetricType, value: u64) -> std::fmt::Result {
        self.write((name, help, kind), &[(&[], float(value))])
    }

    fn histogram(&mut self, name: &str, help: &str, of: Distribution) -> std::fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        // The format wants what fell into each bucket by itself.
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = BUCKETS
            .iter()
            .zip(of.buckets)
            .map(|(end, all)| (*end, all - std::mem::replace(&mut before, all)))
            .collect();
        buckets.push((f64::MAX, of.count.saturating_sub(before)));
        metric.encode_histogram::<NoLabelSet>(of.sum, of.count, &buckets, None)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a float to whoever reads it")]
fn float(value: u64) -> f64 {
    value as f64
}

impl Collector for Discovery {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut family = Family { encoder: &mut encoder };
        let tag: &[(&str, &str)] = &[("component", "pilot"), ("tag", version::NUMBER)];
        family.write(
            ("istio_build", "Istio component build info", MetricType::Gauge),
            &[(tag, 1.0)],
        )?;
        let info: &[(&str, &str)] = &[("version", version::NUMBER)];
        family.write(
            ("pilot_info", "Pilot version and build information", MetricType::Gauge),
            &[(info, 1.0)],
        )?;
        if let Some(engine) = self.engine.upgrade() {
            self.world(&engine, &mut family)?;
            self.pushes(&engine, &mut family)?;
            events(&engine, &mut family)?;
            sizes(&engine, &mut family)?;
            self.outside(&engine, &mut family)?;
        }
        reviews(&self.reviews.counts, &mut family)?;
        if let Some(authority) = self.authority.upgrade() {
            certificates(&authority.metrics().samples(self.clock.now()), &mut family)?;
        }
        Ok(())
    }
}

/// Samples of one name stand together.
fn certificates(samples: &[Sample], family: &mut Family<'_, '_>) -> std::fmt::Result {
    for group in samples.chunk_by(|a, b| a.name == b.name) {
        let Some(first) = group.first() else { continue };
        let kind = match first.kind {
            SampleKind::Counter => MetricType::Counter,
            SampleKind::Gauge => MetricType::Gauge,
        };
        let rows: Vec<(Vec<(&str, &str)>, f64)> =
            group.iter().map(|s| (s.label.into_iter().collect(), s.value)).collect();
        let rows: Vec<(&[(&str, &str)], f64)> = rows.iter().map(|(l, n)| (&l[..], *n)).collect();
        family.write((first.name, first.help.trim_end_matches('.'), kind), &rows)?;
    }
    Ok(())
}

/// Objects as they came, under Istio's two names: what makes up the registry, and configuration.
fn events(engine: &Engine, family: &mut Family<'_, '_>) -> std::fmt::Result {
    let objects = engine.counters().objects();
    for (name, help, istio) in [
        ("pilot_k8s_reg_events", "Events from k8s registry", false),
        ("pilot_k8s_cfg_events", "Events from k8s config", true),
    ] {
        let own = objects.iter().filter(|((kind, _), _)| kind.is_istio() == istio);
        let rows: Vec<([(&str, &str); 2], f64)> = own
            .map(|((kind, gone), n)| {
                let event = if *gone { "delete" } else { "update" };
                ([("type", kind.name()), ("event", event)], float(*n))
            })
            .collect();
        let rows: Vec<(&[(&str, &str)], f64)> = rows.iter().map(|(l, n)| (&l[..], *n)).collect();
        family.write((name, help, MetricType::Counter), &rows)?;
    }
    Ok(())
}

fn sizes(engine: &Engine, family: &mut Family<'_, '_>) -> std::fmt::Result {
    let counts = engine.counts();
    let help = "Distribution of configuration sizes pushed to clients";
    let mut metric = family.encoder.encode_descriptor(
        "pilot_xds_config_size_bytes",
        help,
        None,
        MetricType::Histogram,
    )?;
    for kind in Kind::ALL {
        let of = counts.of(kind);
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = SIZE_BUCKETS
            .iter()
            .zip(of.sizes)
            .map(|(end, all)| (*end, all - std::mem::replace(&mut before, all)))
            .collect();
        buckets.push((f64::MAX, of.pushes.saturating_sub(before)));
        let labels = vec![("type".to_owned(), kind.type_url().to_owned())];
        let mut of_type = metric.encode_family(&labels)?;
        of_type.encode_histogram::<NoLabelSet>(float(of.bytes), of.pushes, &buckets, None)?;
    }
    Ok(())
}

fn reviews(counts: &Counts, family: &mut Family<'_, '_>) -> std::fmt::Result {
    let validated = counts.validated();
    for (name, help, passed) in [
        ("galley_validation_passed", "Resource is valid", true),
        ("galley_validation_failed", "Resource validation failed", false),
    ] {
        let own = validated.iter().filter(|((judged, _), _)| *judged == passed);
        let rows: Vec<([(&str, &str); 3], f64)> = own
            .map(|((_, [group, version, resource]), n)| {
                let labels = [
                    ("group", group.as_str()),
                    ("version", version.as_str()),
                    ("resource", resource.as_str()),
                ];
                (labels, float(*n))
            })
            .collect();
        let rows: Vec<(&[(&str, &str)], f64)> = rows.iter().map(|(l, n)| (&l[..], *n)).collect();
        family.write((name, help, MetricType::Counter), &rows)?;
    }
    let injected = counts.injected();
    for (name, help, n) in [
        ("requests", "Total number of sidecar injection requests", injected.requests),
        ("success", "Total number of successful sidecar injection requests", injected.success),
        ("failure", "Total number of failed sidecar injection requests", injected.failure),
        ("skip", "Total number of skipped sidecar injection requests", injected.skip),
    ] {
        let name = format!("sidecar_injection_{name}_total");
        family.one(&name, help, MetricType::Counter, n)?;
    }
    Ok(())
}

impl Discovery {
    fn world(&self, engine: &Engine, family: &mut Family<'_, '_>) -> std::fmt::Result {
        let (sizes, gauge) = (engine.sizes(), MetricType::Gauge);
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        if let Some(snapshot) = engine.snapshot() {
            let services = count(snapshot.services.len());
            family.one("pilot_services", "Total services known to pilot", gauge, services)?;
            let routes = count(snapshot.config.virtual_services.len());
            family.one(
                "pilot_virt_services",
                "Total virtual services known to pilot",
                gauge,
                routes,
            )?;
        }
        let connections = engine.connections();
        let mut versions = std::collections::BTreeMap::<String, u64>::new();
        for connection in &connections {
            *versions.entry(connection.proxy.version.to_string()).or_default() += 1;
        }
        let rows: Vec<([(&str, &str); 1], f64)> = versions
            .iter()
            .map(|(version, n)| ([("version", version.as_str())], float(*n)))
            .collect();
        let rows: Vec<(&[(&str, &str)], f64)> = rows.iter().map(|(l, n)| (&l[..], *n)).collect();
        let help = "Number of endpoints connected to this pilot using XDS";
        family.write(("pilot_xds", help, gauge), &rows)?;
        family.one(
            "pilot_xds_classes",
            "Groups of proxies that share all bytes",
            gauge,
            count(sizes.classes),
        )?;
        family.one(
            "pilot_xds_cached_resources",
            "Translated resources in use",
            gauge,
            count(sizes.resources),
        )?;
        let wrong = count(engine.diagnostics().len());
        family.one("pilot_diagnostics", "Findings about objects of the mesh", gauge, wrong)
    }

    /// Who should be in the mesh and is not.
    fn outside(&self, engine: &Engine, family: &mut Family<'_, '_>) -> std::fmt::Result {
        let (snapshot, injector) = (engine.snapshot(), self.reviews.injection.current());
        let (Some(snapshot), Some(injector)) = (snapshot, injector) else { return Ok(()) };
        let found = strays(&snapshot, &injector);
        let rows: Vec<([(&str, &str); 1], f64)> = found
            .iter()
            .map(|(namespace, pods)| {
                let n = u64::try_from(pods.len()).unwrap_or(u64::MAX);
                ([("namespace", *namespace)], float(n))
            })
            .collect();
        let rows: Vec<(&[(&str, &str)], f64)> = rows.iter().map(|(l, n)| (&l[..], *n)).collect();
        let help = "Pods that ask for a proxy and run without one";
        family.write(("ironsail_pods_outside_mesh", help, MetricType::Gauge), &rows)
    }

    fn pushes(&self, engine: &Engine, family: &mut Family<'_, '_>) -> std::fmt::Result {
        let (counts, counter) = (engine.counts(), MetricType::Counter);
        let by_type = |value: &dyn Fn(Kind) -> u64| {
            Kind::ALL.map(|kind| ([("type", kind.short())], float(value(kind))))
        };
        let mut write = |name: &str, help: &str, value: &dyn Fn(Kind) -> u64| {
            let rows = by_type(value);
            let rows: Vec<(&[(&str, &str)], f64)> =
                rows.iter().map(|(l, n)| (&l[..], *n)).collect();
            family.write((name, help, counter), &rows)
        };
        write("pilot_xds_pushes", "Pilot build and send errors for lds, rds, cds and eds", &|k| {
            counts.of(k).pushes
        })?;
        write(
            "pilot_xds_config_size_bytes_total",
            "Bytes of configuration sent to proxies",
            &|k| counts.of(k).bytes,
        )?;
        write("pilot_xds_generations", "Resources that were translated", &|k| {
            counts.of(k).generations
        })?;
        write("xds_cache_reads_hit", "Resources that were found translated", &|k| {
            counts.of(k).hits
        })?;
        write(
            "pilot_total_xds_rejects",
            "Total number of XDS responses rejected by proxies",
            &|k| counts.of(k).rejected,
        )?;
        for (kind, name) in [
            (Kind::Cluster, "pilot_xds_cds_reject"),
            (Kind::Endpoint, "pilot_xds_eds_reject"),
            (Kind::Listener, "pilot_xds_lds_reject"),
            (Kind::Route, "pilot_xds_rds_reject"),
        ] {
            let help = "Pilot rejected configs";
            family.one(name, help, MetricType::Gauge, counts.of(kind).rejected)?;
        }
        family.one(
            "pilot_inbound_updates",
            "Total number of updates received by pilot",
            counter,
            counts.events,
        )?;
        let endpoints = counts.endpoint_publications;
        let triggers: [(&[(&str, &str)], f64); 2] = [
            (&[("type", "config")], float(counts.publications - endpoints)),
            (&[("type", "endpoint")], float(endpoints)),
        ];
        let help = "Total number of times a push was triggered, labeled by reason for the push";
        family.write(("pilot_push_triggers", help, counter), &triggers)?;
        let help = "Total number of internal XDS errors in pilot";
        // What cannot be translated is a finding about its object and fails nobody.
        family.one("pilot_total_xds_internal_errors", help, counter, 0)?;
        family.one("pilot_xds_streams", "Streams that were opened", counter, counts.streams)?;
        family.one(
            "pilot_xds_refused_streams",
            "Streams that were refused",
            counter,
            counts.refused_streams,
        )?;
        let counters = engine.counters();
        let help = "Delay in seconds between config change and a proxy receiving all required configuration";
        family.histogram("pilot_proxy_convergence_time", help, counters.convergence.read())?;
        let help = "Total time in seconds Pilot takes to push a class of proxies";
        family.histogram("pilot_xds_push_time", help, counters.refresh.read())?;
        let help =
            "Delay in seconds between the first config enters debounce and the merged push request";
        family.histogram("pilot_debounce_time", help, counters.debounce.read())?;
        let help = "Total time in seconds Pilot takes to build a snapshot";
        family.histogram("pilot_pushcontext_init_seconds", help, counters.snapshot.read())
    }
}
