//! Jobs and CronJobs; the latter are stored only.

use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors, as_map, each, object, set_default, set_if_zero};
use super::table::{AGE, Column, NAME, column, created, name, number, wide};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, STORED, age, pod, selector};

const BATCH: Kind = Kind {
    group: "batch",
    package: "batch.v1",
    categories: &["all"],
    subresources: &["status"],
    generation: Generation::Content,
    ..STORED
};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "CronJob",
        plural: "cronjobs",
        singular: "cronjob",
        short_names: &["cj"],
        behaviour: Behaviour {
            default: default_cron_job,
            validate: validate_cron_job,
            columns: CRON_JOB,
            row: cron_job_row,
            ..BEHAVIOUR
        },
        ..BATCH
    },
    Kind {
        kind: "Job",
        plural: "jobs",
        singular: "job",
        behaviour: Behaviour {
            default: default_job,
            prepare_create: generate_selector,
            validate: |job, errors| validate_job(&At::root(job).get("spec"), true, errors),
            validate_update: validate_job_update,
            columns: JOB,
            row: job_row,
            selectable: &["status.successful"],
            ..BEHAVIOUR
        },
        ..BATCH
    },
];

const JOB: &[Column] = &[
    NAME,
    column("Status"),
    column("Completions"),
    column("Duration"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const CRON_JOB: &[Column] = &[
    NAME,
    column("Schedule"),
    column("Timezone"),
    Column { kind: "boolean", ..column("Suspend") },
    number("Active"),
    column("Last Schedule"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";

fn default_job(job: &mut Value) {
    let template_labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let meta = object(job, "metadata");
    if template_labels.is_object()
        && meta["labels"].as_object().is_none_or(serde_json::Map::is_empty)
    {
        as_map(meta).insert("labels".to_owned(), template_labels);
    }
    default_job_spec(object(job, "spec"), true);
}

/// In a CronJob only the pod template is filled in; the rest when a Job is made of it.
fn default_job_spec(spec: &mut Value, whole: bool) {
    pod::default_spec(object(object(spec, "template"), "spec"));
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        for rule in each(policy, "rules") {
            for pattern in each(rule, "onPodConditions") {
                set_if_zero(pattern, "status", "True");
            }
        }
    }
    if !whole {
        return;
    }
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        set_default(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);
    let per_index = spec.get("backoffLimitPerIndex").is_some_and(|l| !l.is_null());
    set_default(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    let failure_policy = spec.get("podFailurePolicy").is_some_and(|p| !p.is_null());
    let replacement = if failure_policy { "Failed" } else { "TerminatingOrFailed" };
    set_default(spec, "podReplacementPolicy", replacement);
    set_default(spec, "manualSelector", false);
}

fn default_cron_job(job: &mut Value) {
    let spec = object(job, "spec");
    set_if_zero(spec, "concurrencyPolicy", "Allow");
    set_default(spec, "suspend", false);
    set_default(spec, "successfulJobsHistoryLimit", 3);
    set_default(spec, "failedJobsHistoryLimit", 1);
    default_job_spec(object(object(spec, "jobTemplate"), "spec"), false);
}

/// A job selects its pods by its own uid, which the caller has set by now.
fn generate_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, own) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    if !uid.is_string() {
        return;
    }
    // A job without labels of its own has those of its template, the generated ones included.
    let shares = job["metadata"]
        .get("labels")
        .is_some_and(|labels| Some(labels) == job.pointer("/spec/template/metadata/labels"));
    if shares {
        generated_labels(object(object(job, "metadata"), "labels"), &uid, &own);
    }
    let spec = object(job, "spec");
    let template = object(object(spec, "template"), "metadata");
    generated_labels(object(template, "labels"), &uid, &own);
    let selected = as_map(object(object(spec, "selector"), "matchLabels"));
    selected.insert(UID_LABEL.to_owned(), uid);
}

fn generated_labels(labels: &mut Value, uid: &Value, own: &Value) {
    let labels = as_map(labels);
    for (key, value) in
        [(UID_LABEL, uid), ("controller-uid", uid), (NAME_LABEL, own), ("job-name", own)]
    {
        labels.insert(key.to_owned(), value.clone());
    }
}

fn validate_job(spec: &At<'_>, selected: bool, errors: &mut Errors) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.get(key).not_negative(errors);
    }
    let mode = spec.get("completionMode");
    mode.one_of_if_set(&["NonIndexed", "Indexed"], errors);
    if mode.str() == "Indexed" && !spec.get("completions").is_set() {
        errors.push(spec.get("completions").required("when completion mode is Indexed"));
    }
    if mode.str() != "Indexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            if spec.get(key).is_set() {
                errors.push(spec.get(key).invalid("requires indexed completion mode"));
            }
        }
    }
    let choice = spec.get("selector");
    if selected {
        if choice.is_set() {
            selector::validate(&choice, errors);
        } else {
            errors.push(choice.required(""));
        }
    }
    if selected && choice.is_set() && selector::is_valid(&choice) {
        pod::validate_selected(&spec.get("template"), &choice, errors);
    }
    pod::validate_template(&spec.get("template"), errors);
    let policy = spec.dig("template.spec.restartPolicy");
    if policy.str() == "Always" {
        errors.push(policy.required("valid values: \"OnFailure\", \"Never\""));
    } else if !matches!(policy.str(), "OnFailure" | "Never") {
        errors.push(FieldError::not_supported(
            policy.path.clone(),
            policy.value.clone(),
            &["OnFailure", "Never"],
        ));
    }
}

fn validate_job_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (At::root(new).get("spec"), At::root(old).get("spec"));
    for key in ["selector", "completionMode", "backoffLimitPerIndex", "podFailurePolicy"] {
        super::meta::immutable(&new.get(key), &old.get(key), errors);
    }
    if old.get("completionMode").str() != "Indexed" {
        super::meta::immutable(&new.get("completions"), &old.get("completions"), errors);
    }
    // Where a suspended job's pods may run can still be narrowed before it starts.
    let suspended = old.get("suspend").bool();
    let template = |at: &At<'_>| {
        let mut template = at.get("template").value.clone();
        if suspended {
            let spec = as_map(object(&mut template, "spec"));
            for key in ["affinity", "nodeSelector", "tolerations", "schedulingGates"] {
                spec.remove(key);
            }
            let meta = as_map(object(&mut template, "metadata"));
            meta.remove("labels");
            meta.remove("annotations");
        }
        template
    };
    if template(&new) != template(&old) {
        errors.push(new.get("template").invalid("field is immutable"));
    }
}

fn validate_cron_job(job: &Value, errors: &mut Errors) {
    let at = At::root(job);
    let spec = at.get("spec");
    if at.dig("metadata.name").str().len() > 52 {
        errors.push(at.dig("metadata.name").invalid("must be no more than 52 characters"));
    }
    let schedule = spec.get("schedule");
    if schedule.need(errors) && !schedule.str().starts_with('@') {
        let fields = schedule.str().split_whitespace().count();
        if fields != 5 {
            errors.push(schedule.invalid(format!(
                "expected exactly 5 fields, found {fields}: [{}]",
                schedule.str().split_whitespace().collect::<Vec<_>>().join(" ")
            )));
        }
    }
    spec.get("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"], errors);
    for key in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.get(key).not_negative(errors);
    }
    let template = spec.dig("jobTemplate.spec");
    if template.get("selector").is_set() {
        errors.push(template.get("selector").invalid("`selector` will be auto-generated"));
    }
    validate_job(&template, false, errors);
}

fn wide_cells(job_spec: &Value) -> [Value; 2] {
    pod::container_cells(&job_spec["template"]["spec"])
}

fn job_row(job: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(job);
    let (spec, status) = (at.get("spec"), at.get("status"));
    let succeeded = status.get("succeeded").int();
    let completions = if spec.get("completions").is_set() {
        format!("{succeeded}/{}", spec.get("completions").int())
    } else if spec.get("parallelism").int() > 1 {
        format!("{succeeded}/1 of {}", spec.get("parallelism").int())
    } else {
        format!("{succeeded}/1")
    };
    let start = age::time(job["status"].get("startTime"));
    let end = age::time(job["status"].get("completionTime")).unwrap_or(now);
    let duration = start
        .and_then(|start| end.duration_since(start).ok())
        .map(super::human_duration)
        .unwrap_or_default();
    let [names, images] = wide_cells(&job["spec"]);
    vec![
        name(job),
        json!(job_state(&at)),
        json!(completions),
        json!(duration),
        created(job, now),
        names,
        images,
        json!(selector::text(&job["spec"]["selector"])),
    ]
}

fn job_state(job: &At<'_>) -> &'static str {
    let is = |kind: &str| {
        job.dig("status.conditions")
            .items()
            .any(|c| c.get("type").str() == kind && c.get("status").str() == "True")
    };
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if job.dig("metadata.deletionTimestamp").is_set() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn cron_job_row(job: &Value, now: SystemTime) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let last = match status.get("lastScheduleTime") {
        Some(time) if !time.is_null() => age::since(Some(time), now),
        _ => "<none>".to_owned(),
    };
    let [names, images] = wide_cells(&spec["jobTemplate"]["spec"]);
    vec![
        name(job),
        spec["schedule"].clone(),
        json!(spec["timeZone"].as_str().unwrap_or("<none>")),
        json!(if spec["suspend"] == true { "True" } else { "False" }),
        json!(status["active"].as_array().map_or(0, Vec::len)),
        json!(last),
        created(job, now),
        names,
        images,
        json!(selector::text(&spec["jobTemplate"]["spec"]["selector"])),
    ]
}
