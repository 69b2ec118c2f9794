//! `istioctl ca rotate`: goes through the steps, and waits after each until everybody has done it.
//!
//! In: the rotation as it lies in the cluster and what the mesh says; out: the CA's Secret changed, and
//! progress on standard error. It never goes on while somebody is behind. Ended at any moment, it goes
//! on from there when it is run again; `--back` takes the last step back.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ironsail_sys::clock::Clock;
use serde::Serialize;
use tokio::time::Instant;

use super::material::{self, Material};
use super::rotation::{NAME, Rotation, Store};
use super::step::{Behind, Change, Step, behind};
use super::view::View;
use crate::Context;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Between two looks at the mesh.
const LOOK: Duration = Duration::from_secs(1);
/// Names that are printed of those who are behind.
const SHOWN: usize = 5;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # A new self-signed root, all steps
  istioctl ca rotate
  # To a CA of your own: ca-cert.pem, ca-key.pem, root-cert.pem, cert-chain.pem
  istioctl ca rotate --from ./new-ca
  # One step only; run it again for the next
  istioctl ca rotate --one-step
  # Take the last step back
  istioctl ca rotate --back
  # Delete the old key, once all is well
  istioctl ca rotate --forget")]
pub(super) struct Args {
    /// Folder with the new CA; without it a self-signed root is made
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Stop after one step
    #[arg(long, conflicts_with_all = ["back", "forget"])]
    one_step: bool,
    /// Take the last step back, and wait until that has come to everybody
    #[arg(long, conflicts_with = "forget")]
    back: bool,
    /// Delete what is kept of a rotation that is done, the old key among it
    #[arg(long)]
    forget: bool,
    /// How long a step may take for everybody; then the command ends and may be run again
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// One of json, yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// How it ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    /// The last step that was begun; none if everything is as before.
    step: Option<Step>,
    /// Everybody has done it.
    complete: bool,
    /// Nothing is left to do.
    done: bool,
    old_root: String,
    new_root: String,
    behind: Vec<Behind>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = Cluster::connect(&context.global).await?;
    let store = Store::new(&cluster);
    let found = store.rotation().await?;
    if args.forget {
        return Ok(forget(&store, found).await?);
    }
    let run = Run { args, cluster: &cluster, store: &store, now: Clock::system().now() };
    let outcome = match args.back {
        true => run.back(found).await?,
        false => run.forward(found).await?,
    };
    output::print(args.output, &outcome, || text(&outcome))?;
    if outcome.complete { Ok(()) } else { Err(Failure::Bad) }
}

async fn forget(store: &Store, found: Option<Rotation>) -> anyhow::Result<()> {
    let Some(rotation) = found else {
        eprintln!("there is no rotation to forget");
        return Ok(());
    };
    anyhow::ensure!(
        rotation.done,
        "the rotation is in step {}: finish it (istioctl ca rotate) or take it back (--back) first",
        rotation.step.word()
    );
    store.forget().await?;
    eprintln!("the old key is deleted");
    Ok(())
}

struct Run<'a> {
    args: &'a Args,
    cluster: &'a Cluster,
    store: &'a Store,
    now: SystemTime,
}

/// Both sides of a rotation, read and checked.
struct Sides {
    old: Material,
    new: Material,
    change: Change,
}

impl Run<'_> {
    fn sides(&self, rotation: &Rotation) -> anyhow::Result<Sides> {
        let old = Material::read(rotation.old.clone(), "the old CA", self.now)?;
        let new = Material::read(rotation.new.clone(), "the new CA", self.now)?;
        let change = material::change(&old, &new)?;
        Ok(Sides { old, new, change })
    }

    /// Looks whether everything is in order and writes down what is to be done.
    async fn begin(&self) -> anyhow::Result<Rotation> {
        let view = View::of(self.cluster).await?;
        let signing = view.signing()?;
        anyhow::ensure!(
            signing.next_root.is_none(),
            "the CA is changing to another root by itself; wait until istioctl ca status shows it"
        );
        let cacerts = self.store.files(ironsail_ca::CACERTS_SECRET).await?;
        let target = material::target(cacerts.as_ref())?;
        let files = self.store.files(target).await?;
        let files = files.ok_or_else(|| {
            anyhow::anyhow!("there is no Secret {target}; the control plane signs from {}", signing.origin)
        })?;
        let old = Material::read(files, &format!("Secret {target}"), self.now)?;
        anyhow::ensure!(
            old.signing.certificate().fingerprint() == signing.certificate.fingerprint,
            "the control plane signs from {}, not from Secret {target}",
            signing.origin
        );
        let new = match &self.args.from {
            Some(folder) => Material::of_folder(folder, self.now)?,
            None => {
                anyhow::ensure!(
                    target == ironsail_ca::CA_SECRET,
                    "Secret {target} was plugged in: name the folder of the new CA (--from)"
                );
                Material::made(&old.signing, self.now)?
            }
        };
        material::change(&old, &new)?;
        Ok(Rotation::new(target, old.files, new.files))
    }

    async fn forward(&self, found: Option<Rotation>) -> anyhow::Result<Outcome> {
        let mut rotation = match found {
            Some(rotation) if !rotation.done => {
                anyhow::ensure!(
                    self.args.from.is_none(),
                    "a rotation is under way in step {}: --from is for new ones",
                    rotation.step.word()
                );
                self.resumed(rotation).await?
            }
            done => {
                let begun = self.begin().await?;
                if done.is_some() {
                    self.store.forget().await?;
                }
                begun
            }
        };
        let sides = self.sides(&rotation)?;
        loop {
            self.store.keep(&mut rotation).await?;
            let outcome = self.take(&rotation, &sides).await?;
            if !outcome.complete {
                return Ok(outcome);
            }
            let Some(next) = rotation.step.next() else {
                rotation.done = true;
                self.store.keep(&mut rotation).await?;
                return Ok(Outcome { done: true, ..outcome });
            };
            if self.args.one_step {
                return Ok(outcome);
            }
            rotation.step = next;
        }
    }

    /// A step that everybody has done already is behind us.
    async fn resumed(&self, mut rotation: Rotation) -> anyhow::Result<Rotation> {
        let (sides, view) = (self.sides(&rotation)?, View::of(self.cluster).await?);
        let complete = behind(rotation.step, &view, &sides.change).is_empty();
        if let (true, Some(next)) = (complete, rotation.step.next()) {
            rotation.step = next;
        }
        Ok(rotation)
    }

    /// Does the step that the rotation is in and waits for everybody.
    async fn take(&self, rotation: &Rotation, sides: &Sides) -> anyhow::Result<Outcome> {
        let step = rotation.step;
        let files = material::contents(step, &sides.old, &sides.new);
        let number = Step::ALL.iter().position(|one| *one == step).unwrap_or_default() + 1;
        eprintln!("[{number}/{}] {}: {}", Step::ALL.len(), step.word(), step.says());
        self.store.put(&rotation.target, &files).await?;
        let behind = self.wait(|view| behind(step, view, &sides.change)).await?;
        Ok(outcome(Some(step), &sides.change, behind))
    }

    async fn back(&self, found: Option<Rotation>) -> anyhow::Result<Outcome> {
        let Some(mut rotation) = found else {
            anyhow::bail!("there is no rotation to take back");
        };
        let sides = self.sides(&rotation)?;
        match rotation.step.back() {
            Some(step) => {
                (rotation.step, rotation.done) = (step, false);
                self.store.keep(&mut rotation).await?;
                self.take(&rotation, &sides).await
            }
            None => {
                eprintln!("back: everything is as it was before");
                self.store.put(&rotation.target, &sides.old.files).await?;
                let change = &sides.change;
                // As if the old root were the new one.
                let undone = Change { old: change.new.clone(), new: change.old.clone() };
                let behind = self.wait(|view| behind(Step::Retire, view, &undone)).await?;
                if behind.is_empty() {
                    self.store.forget().await?;
                }
                Ok(outcome(None, change, behind))
            }
        }
    }

    /// Waits until nobody is behind; gives those who still are when the time is over.
    async fn wait(
        &self,
        behind: impl Fn(&View) -> Vec<Behind>,
    ) -> anyhow::Result<Vec<Behind>> {
        let end = Instant::now() + Duration::from_secs(self.args.timeout);
        let mut said = String::new();
        loop {
            // A replica that is just restarting is no reason to give up.
            let late = match View::of(self.cluster).await {
                Ok(view) => {
                    let late = behind(&view);
                    let line = progress(view.replicas.len() + view.proxies.len(), &late);
                    if line != said {
                        eprintln!("      {line}");
                        said = line;
                    }
                    late
                }
                Err(error) if Instant::now() < end => {
                    eprintln!("      {error:#}; trying again");
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if late.is_empty() || Instant::now() >= end {
                return Ok(late);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn outcome(step: Option<Step>, change: &Change, behind: Vec<Behind>) -> Outcome {
    let (old_root, new_root) = (change.old.clone(), change.new.clone());
    Outcome { step, complete: behind.is_empty(), done: false, old_root, new_root, behind }
}

fn progress(all: usize, late: &[Behind]) -> String {
    let mut line = format!("{} of {all} are there", all.saturating_sub(late.len()));
    for one in late.iter().take(SHOWN) {
        line += &format!("; {}: {}", one.who, one.why);
    }
    if late.len() > SHOWN {
        line += &format!("; and {} more", late.len() - SHOWN);
    }
    line
}

fn text(outcome: &Outcome) -> String {
    if outcome.complete {
        return match (outcome.step, outcome.done) {
            (_, true) => format!(
                "The root is {} now. The old key is kept in Secret {NAME}, so that --back still \
                 works; istioctl ca rotate --forget deletes it.\n",
                outcome.new_root
            ),
            (None, _) => "The rotation is taken back.\n".to_owned(),
            (Some(step), _) => format!(
                "Step {} is complete. Go on with istioctl ca rotate, or take it back with --back.\n",
                step.word()
            ),
        };
    }
    let mut text = String::from("Not going on, because these are behind:\n");
    for Behind { who, why } in &outcome.behind {
        text += &format!("  {who}: {why}\n");
    }
    text + "Mend them and run istioctl ca rotate again, or take the step back with --back.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_some_of_those_who_are_behind() {
        let late = |n: usize| -> Vec<Behind> {
            (0..n).map(|n| Behind { who: format!("p{n}"), why: "w".to_owned() }).collect()
        };
        assert_eq!(progress(3, &late(0)), "3 of 3 are there");
        assert_eq!(progress(3, &late(1)), "2 of 3 are there; p0: w");
        assert!(progress(9, &late(7)).ends_with("; and 2 more"));
    }

    #[test]
    fn the_end_is_told_with_what_to_do_next() {
        let change = Change { old: "o".to_owned(), new: "n".to_owned() };
        let late = vec![Behind { who: "a.b".to_owned(), why: "it sleeps".to_owned() }];
        let stuck = text(&outcome(Some(Step::Switch), &change, late));
        assert!(stuck.contains("a.b: it sleeps") && stuck.contains("--back"), "{stuck}");
        let good = text(&outcome(Some(Step::Switch), &change, Vec::new()));
        assert!(good.contains("switch is complete"), "{good}");
    }
}
