//! Completion indexes of Indexed Jobs: reading them from pods and writing them as text. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

use crate::store::annotation;

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn of(pod: &Pod) -> Option<i32> {
    annotation(&pod.metadata, INDEX)?.parse().ok()
}

/// Numbers as `0,2-5,7`: runs of three and more are written as ranges, as Kubernetes does.
pub(super) fn compress(numbers: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let text = |(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The lowest `count` indexes below `completions` that are neither done nor being worked on.
pub(super) fn free(
    completions: i32,
    done: &BTreeSet<i32>,
    busy: &BTreeSet<i32>,
    count: usize,
) -> Vec<i32> {
    (0..completions).filter(|n| !done.contains(n) && !busy.contains(n)).take(count).collect()
}

/// Tells a pod its index: by annotation, label, host name and environment.
pub(super) fn mark(pod: &mut Pod, job: &str, index: i32) {
    let text = index.to_string();
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.into(), text.clone());
    pod.metadata.labels.get_or_insert_default().insert(INDEX.into(), text);
    pod.metadata.generate_name = Some(format!("{job}-{index}-"));
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{job}-{index}"));
    spec.containers.iter_mut().for_each(add_variable);
    spec.init_containers.iter_mut().flatten().for_each(add_variable);
}

fn add_variable(container: &mut Container) {
    let name = "JOB_COMPLETION_INDEX";
    let variables = container.env.get_or_insert_default();
    if variables.iter().all(|v| v.name != name) {
        variables.push(EnvVar {
            name: name.into(),
            value: None,
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    api_version: None,
                    field_path: format!("metadata.annotations['{INDEX}']"),
                }),
                ..EnvVarSource::default()
            }),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_ranges() {
        let rows: [(&[i32], &str); 5] = [
            (&[], ""),
            (&[3], "3"),
            (&[0, 1], "0,1"),
            (&[0, 1, 2, 5], "0-2,5"),
            (&[1, 3, 4, 5, 7, 8], "1,3-5,7,8"),
        ];
        for (numbers, expected) in rows {
            assert_eq!(compress(&numbers.iter().copied().collect()), expected);
        }
    }

    #[test]
    fn the_lowest_free_indexes_come_first() {
        let done = [0, 2].into();
        let busy = [1].into();
        assert_eq!(free(6, &done, &busy, 2), [3, 4]);
        assert_eq!(free(4, &done, &busy, 5), [3]);
    }
}
