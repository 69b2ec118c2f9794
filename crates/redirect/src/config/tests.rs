//! Settings become a configuration, or a fault each.

use super::{Config, Destinations, Dns, Groups, Host, InboundPorts, Mode, PortRange, Settings};

fn text(value: &str) -> String {
    value.to_owned()
}

fn faults(settings: &Settings) -> Vec<String> {
    let faults = settings.config(&Host::default()).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

fn config(settings: &Settings) -> Config {
    settings.config(&Host::default()).unwrap()
}

#[test]
fn the_defaults_capture_nothing_but_are_complete() {
    let config = config(&Settings::default());
    assert_eq!((config.proxy_port, config.inbound_capture_port), (15001, 15006));
    assert_eq!(config.proxy_groups, ["1337"], "as the user");
    assert!(!config.captures_inbound());
    assert_eq!(config.outbound_ranges, Destinations::Only(Vec::new()));
    assert_eq!(config.owner_groups, Groups::AllExcept(Vec::new()));
}

#[test]
fn every_fault_is_reported_at_once() {
    let settings = Settings {
        proxy_port: text("0"),
        inbound_capture_port: text("http"),
        inbound_interception_mode: text("redirect"),
        inbound_ports_include: text("80,70000,9000:8000"),
        outbound_ip_ranges_include: text("10.0.0.0/8,10.0.0.1,fd00::/200"),
        outbound_ip_ranges_exclude: text("*"),
        outbound_ports_include: text("*"),
        loopback_cidr: text("10.0.0.1/32"),
        proxy_uid: text(","),
        ..Settings::default()
    };
    assert_eq!(
        faults(&settings),
        [
            r#"--envoy-port: "0" is not a port (1 to 65535)"#,
            r#"--inbound-capture-port: "http" is not a port (1 to 65535)"#,
            r#"--proxy-uid: "," names nobody"#,
            r#"--proxy-gid: "," names nobody"#,
            r#"--istio-inbound-interception-mode: "redirect" is not one of REDIRECT, TPROXY, NONE"#,
            r#"--istio-inbound-ports: "70000" is not a port (1 to 65535)"#,
            r#"--istio-inbound-ports: "9000:8000" is a range of ports that ends before it begins"#,
            r#"--istio-outbound-ports: "*" is not a port (1 to 65535)"#,
            r#"--istio-service-cidr: "10.0.0.1" is not an IP range such as 10.0.0.0/8"#,
            r#"--istio-service-cidr: "fd00::/200" is not an IP range such as 10.0.0.0/8"#,
            r#"--istio-service-exclude-cidr: "*" is not an IP range such as 10.0.0.0/8"#,
            r#"ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR: "10.0.0.1/32" is not inside the IPv4 loopback range 127.0.0.0/8"#,
        ]
    );
}

#[test]
fn no_text_can_break_out_of_its_rule() {
    for bad in [
        "eth0\n-A OUTPUT",
        "eth0 -j ACCEPT",
        "eth0;x",
        "\"eth0\"",
        "-j",
        "eth*",
        "a-name-too-long-for-a-link",
    ] {
        let settings = Settings { exclude_interfaces: text(bad), ..Settings::default() };
        assert_eq!(faults(&settings).len(), 1, "{bad:?}");
    }
    for bad in ["1337 -j ACCEPT", "root\nCOMMIT", "$(id)", "!0", "-1", "{1}"] {
        let settings = Settings { proxy_gid: text(bad), ..Settings::default() };
        assert_eq!(faults(&settings).len(), 1, "{bad:?}");
    }
}

#[test]
fn lists_forgive_spaces_and_empty_parts() {
    let settings =
        Settings { inbound_ports_include: text(" 80, ,443,8000-8080 ,"), ..Settings::default() };
    let ports = [(80, 80), (443, 443), (8000, 8080)];
    let ports = ports.map(|(first, last)| PortRange { first, last }).to_vec();
    assert_eq!(config(&settings).inbound_ports, InboundPorts::Only(ports));
}

#[test]
fn exclusions_count_only_where_all_is_included() {
    let settings = Settings {
        inbound_ports_include: text("80"),
        inbound_ports_exclude: text("81"),
        owner_groups_include: text("100"),
        owner_groups_exclude: text("200"),
        ..Settings::default()
    };
    let config = config(&settings);
    assert_eq!(config.inbound_ports, InboundPorts::Only(vec![PortRange::one(80)]));
    assert_eq!(config.owner_groups, Groups::Only(vec![text("100")]));
}

#[test]
fn too_many_groups_do_not_fit_into_a_rule() {
    let many: Vec<String> = (0..65).map(|n: u32| n.to_string()).collect();
    let mut settings = Settings { owner_groups_include: many.join(","), ..Settings::default() };
    assert!(faults(&settings)[0].ends_with("has 65 groups; at most 64 fit into a rule"));
    settings.owner_groups_include = many[1..].join(",");
    assert_eq!(faults(&settings), Vec::<String>::new());
}

#[test]
fn lookups_are_captured_only_if_a_server_can_be_reached() {
    let dns = |redirect_dns, capture_all_dns, ipv6, servers: &[&str]| {
        let name_servers = servers.iter().map(|s| s.parse().unwrap()).collect();
        let settings = Settings { redirect_dns, capture_all_dns, ..Settings::default() };
        settings.config(&Host { ipv6, name_servers }).unwrap().dns
    };
    let server = "10.96.0.10";
    assert_eq!(dns(false, true, false, &[server]), Dns::Off);
    assert_eq!(dns(true, true, false, &[]), Dns::All);
    assert_eq!(dns(true, false, false, &[]), Dns::Off);
    assert_eq!(dns(true, false, false, &["fd00::10"]), Dns::Off);
    assert_eq!(
        dns(true, false, false, &[server, "fd00::10"]),
        Dns::Servers(vec![server.parse().unwrap()])
    );
}

#[test]
fn name_servers_are_read_from_resolv_conf() {
    let text = "# nameserver 1.1.1.1\nsearch a b\nnameserver 10.96.0.10\nnameserver  fe80::1%eth0\nnameserver\nnameserver x\n";
    let expected: [std::net::IpAddr; 2] =
        ["10.96.0.10".parse().unwrap(), "fe80::1".parse().unwrap()];
    assert_eq!(Host::name_servers_of(text), expected);
}

#[test]
fn marks_may_be_hexadecimal_and_modes_are_spelt_exactly() {
    let settings = Settings {
        inbound_tproxy_mark: text("0x539"),
        inbound_interception_mode: text("TPROXY"),
        ..Settings::default()
    };
    assert_eq!((config(&settings).tproxy_mark, config(&settings).mode), (1337, Mode::Tproxy));
}
