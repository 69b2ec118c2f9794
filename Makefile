# What a stranger needs. Each target installs what it lacks (apt, pip, cargo) and says so.

SHELL := /bin/bash
export IRONSAIL_CACHE ?= $(HOME)/.cache/ironsail
export PATH := $(IRONSAIL_CACHE)/tools/bin:$(PATH):/usr/sbin:/sbin

.PHONY: help demo demo-down test soak lint bench fuzz

help:
	@echo 'make demo       the samples on one machine; run again to bring up what is missing'
	@echo 'make demo-down  stop the demo and leave nothing behind'
	@echo 'make test       all tests'
	@echo 'make soak       half an hour of load while everything is replaced, ten minutes on the Envoy module; growing memory fails'
	@echo 'make fuzz       every fuzz target for a minute each (FUZZ: seconds); needs a nightly toolchain'
	@echo 'make lint       format, clippy and the checks of cargo xtask tidy'
	@echo 'make bench      the measurements that the README quotes'

demo:
	@scripts/setup run
	@scripts/demo up

demo-down:
	@scripts/demo down

test:
	@scripts/setup test
	@scripts/test

# SOAK: for how many seconds.
soak: export IRONSAIL_SOAK := $(or $(SOAK),1800)
soak:
	@scripts/setup test
	cargo build --release --package podlet --package pilot-discovery --package pilot-agent --package envoy-module \
		--package httpbin
	cargo test --release --package ironsail-tests --test soak --test module -- --nocapture

# FUZZ: for how many seconds each.
fuzz:
	scripts/fuzz $(or $(FUZZ),60)

lint:
	@scripts/setup lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask tidy

bench:
	@scripts/setup test
	cargo build --release --workspace --exclude ironsail-harness
	cargo run --release --quiet --package ironsail-bench
