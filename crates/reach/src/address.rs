use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// What is known of an address that not everybody can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is this machine.
    Loopback,
    /// It belongs to a private network (RFC 1918), or one of an operator (RFC 6598).
    Private,
    /// It belongs to whatever hangs on the same wire, such as what a cloud tells its machines.
    LinkLocal,
    /// It is a group of machines.
    Multicast,
    /// It is none, or reserved for something else.
    Reserved,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Loopback => "this machine",
            Kind::Private => "a private address",
            Kind::LinkLocal => "a link-local address",
            Kind::Multicast => "a multicast address",
            Kind::Reserved => "no address that everybody can reach",
        })
    }
}

/// The IANA registry of special IPv4 addresses, and the blocks that are no single machine's.
const SPECIAL_V4: [(Ipv4Net, Kind); 16] = [
    (v4([0, 0, 0, 0], 8), Kind::Reserved),
    (v4([10, 0, 0, 0], 8), Kind::Private),
    (v4([100, 64, 0, 0], 10), Kind::Private),
    (v4([127, 0, 0, 0], 8), Kind::Loopback),
    (v4([169, 254, 0, 0], 16), Kind::LinkLocal),
    (v4([172, 16, 0, 0], 12), Kind::Private),
    (v4([192, 0, 0, 0], 24), Kind::Reserved),
    (v4([192, 0, 2, 0], 24), Kind::Reserved),
    (v4([192, 88, 99, 0], 24), Kind::Reserved),
    (v4([192, 168, 0, 0], 16), Kind::Private),
    (v4([198, 18, 0, 0], 15), Kind::Reserved),
    (v4([198, 51, 100, 0], 24), Kind::Reserved),
    (v4([203, 0, 113, 0], 24), Kind::Reserved),
    (v4([224, 0, 0, 0], 4), Kind::Multicast),
    (v4([240, 0, 0, 0], 4), Kind::Reserved),
    // What some clouds answer at beside 169.254.169.254, in a block that is otherwise anybody's.
    (v4([168, 63, 129, 16], 32), Kind::LinkLocal),
];

/// The same of IPv6. Everything outside of 2000::/3 is special.
const SPECIAL_V6: [(Ipv6Net, Kind); 9] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Kind::Loopback),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Kind::Private),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Kind::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Kind::LinkLocal),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Kind::Multicast),
    // Protocols, among them Teredo, which leads to any IPv4 address behind a relay.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Kind::Reserved),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Kind::Reserved),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Kind::Reserved),
    // Translation within a network (RFC 8215), which may lead anywhere in it.
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Kind::Private),
];

const UNICAST: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)
}

/// What is special about an address; `None` if everybody can reach it. One that stands for an IPv4 address is what that is.
pub fn kind_of(address: IpAddr) -> Option<Kind> {
    match address {
        IpAddr::V4(address) => {
            SPECIAL_V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, kind)| *kind)
        }
        IpAddr::V6(address) => match meant(address) {
            Some(meant) => kind_of(IpAddr::V4(meant)),
            None => {
                let special =
                    SPECIAL_V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, kind)| *kind);
                special.or_else(|| (!UNICAST.contains(&address)).then_some(Kind::Reserved))
            }
        },
    }
}

/// The IPv4 address that an IPv6 address leads to: mapped (RFC 4291), translated (RFC 6052), by 6to4 (RFC 3056).
fn meant(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, ..] = address.segments();
    let [.., e, f, g, h] = address.octets();
    let of_two = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(Ipv4Addr::new(e, f, g, h)),
        _ if a == 0x2002 => Some(of_two(b, c)),
        _ => None,
    }
}

/// Reads a network as it is written: with the length of its prefix, or a single address.
pub(crate) fn net(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(IpNet::from))
}

/// Whether an address is in a network, also where it only stands for one that is.
pub(crate) fn is_in(net: &IpNet, address: IpAddr) -> bool {
    let meant = match address {
        IpAddr::V6(address) => meant(address).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    };
    net.contains(&address) || meant.is_some_and(|meant| net.contains(&meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_they_lead_to() {
        use Kind::{LinkLocal, Loopback, Multicast, Private, Reserved};
        for (address, kind) in [
            ("1.1.1.1", None),
            ("8.8.8.8", None),
            ("100.63.255.255", None),
            ("172.15.255.255", None),
            ("172.32.0.0", None),
            ("169.253.255.255", None),
            ("198.17.255.255", None),
            ("223.255.255.255", None),
            ("0.0.0.0", Some(Reserved)),
            ("0.1.2.3", Some(Reserved)),
            ("10.0.0.0", Some(Private)),
            ("10.255.255.255", Some(Private)),
            ("100.64.0.1", Some(Private)),
            ("100.127.255.255", Some(Private)),
            ("127.0.0.1", Some(Loopback)),
            ("127.255.255.254", Some(Loopback)),
            ("168.63.129.16", Some(LinkLocal)),
            ("168.63.129.17", None),
            ("169.254.169.254", Some(LinkLocal)),
            ("172.16.0.1", Some(Private)),
            ("172.31.255.255", Some(Private)),
            ("192.0.0.8", Some(Reserved)),
            ("192.0.2.1", Some(Reserved)),
            ("192.88.99.1", Some(Reserved)),
            ("192.168.0.1", Some(Private)),
            ("198.18.0.1", Some(Reserved)),
            ("198.19.255.255", Some(Reserved)),
            ("198.51.100.1", Some(Reserved)),
            ("203.0.113.1", Some(Reserved)),
            ("224.0.0.1", Some(Multicast)),
            ("239.255.255.255", Some(Multicast)),
            ("240.0.0.1", Some(Reserved)),
            ("255.255.255.255", Some(Reserved)),
            ("2606:4700:4700::1111", None),
            ("2a00:1450:4001:800::200e", None),
            ("::", Some(Reserved)),
            ("::1", Some(Loopback)),
            ("::127.0.0.1", Some(Reserved)),
            ("::2", Some(Reserved)),
            ("fc00::1", Some(Private)),
            ("fd00:ec2::254", Some(Private)),
            ("fe80::1", Some(LinkLocal)),
            ("febf::1", Some(LinkLocal)),
            ("fec0::1", Some(Private)),
            ("ff02::1", Some(Multicast)),
            ("100::1", Some(Reserved)),
            ("2001:db8::1", Some(Reserved)),
            ("2001::1", Some(Reserved)),
            ("2001:1ff::1", Some(Reserved)),
            ("2001:200::1", None),
            ("3fff::1", Some(Reserved)),
            ("5f00::1", Some(Reserved)),
            // What stands for an IPv4 address is what that is.
            ("::ffff:127.0.0.1", Some(Loopback)),
            ("::ffff:169.254.169.254", Some(LinkLocal)),
            ("::ffff:10.0.0.1", Some(Private)),
            ("::ffff:8.8.8.8", None),
            ("64:ff9b::127.0.0.1", Some(Loopback)),
            ("64:ff9b::a9fe:a9fe", Some(LinkLocal)),
            ("64:ff9b::8.8.8.8", None),
            ("64:ff9b:1::8.8.8.8", Some(Private)),
            ("2002:7f00:1::", Some(Loopback)),
            ("2002:a9fe:a9fe::1", Some(LinkLocal)),
            ("2002:c0a8:1::1", Some(Private)),
            ("2002:808:808::1", None),
        ] {
            assert_eq!(kind_of(address.parse().expect(address)), kind, "{address}");
        }
    }
}
