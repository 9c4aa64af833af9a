import { BlockList, isIP } from "node:net";

const metadataKind = "a metadata address";
const metadataAddresses = ["169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::254/128"];

const loopback = ["127.0.0.0/8", "::1/128"];
const privateNetworks = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];

/**
 * All ranges that are not public internet addresses, by the kind that an error names: IANA's registries of
 * special addresses, and the metadata addresses of clouds. IPv6 has one block of public addresses, 2000::/3;
 * everything outside it is listed.
 */
const specialRanges: Record<string, string[]> = {
  [metadataKind]: metadataAddresses,
  "a loopback address": loopback,
  "a private address": [...privateNetworks, "fec0::/10"],
  "a link-local address": ["169.254.0.0/16", "fe80::/10"],
  "a multicast address": ["224.0.0.0/4", "ff00::/8"],
  "an address reserved for examples": [
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "198.18.0.0/15",
    "2001:db8::/32",
    "3fff::/20",
  ],
  "an address that maps to another one": ["::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16"],
  "a reserved address": [
    "0.0.0.0/8",
    "192.0.0.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.175.48.0/24",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "2001::/23",
    "2620:4f:8000::/48",
    "::/3",
    "4000::/2",
    "8000::/1",
  ],
};

const kinds = Object.entries(specialRanges).map(([kind, ranges]) => ({ kind, includes: createMatcher(ranges) }));

const isLoopback = createMatcher(withMapped(loopback));
const isInPrivateNetwork = createMatcher(withMapped(privateNetworks));
const isMetadata = createMatcher(withMapped(metadataAddresses));

/** The ranges, and those of IPv4-mapped IPv6 addresses: ::ffff:127.0.0.1 is 127.0.0.1. */
function withMapped(ranges: readonly string[]): string[] {
  const ofIPv4 = ranges.filter((range) => range.includes("."));
  return [
    ...ranges,
    ...ofIPv4.map((range) => range.replace(/(.*)\/(.*)/, (_, ip, bits) => `::ffff:${ip}/${96 + Number(bits)}`)),
  ];
}

/**
 * Whether an IP address is in a private network (RFC 1918, 100.64.0.0/10, fc00::/7) or loopback. A
 * link-local or metadata address is not private, and neither is anything but an IP address.
 */
export function isPrivateAddress(address: string): boolean {
  const ip = withoutZone(address);
  return isIP(ip) !== 0 && !isMetadata(ip) && (isLoopback(ip) || isInPrivateNetwork(ip));
}

/** The IPv6 address without its zone, such as "%eth0", which `BlockList` does not accept. */
function withoutZone(address: string): string {
  return address.replace(/%.*/s, "");
}

/**
 * Returns why an IP address is forbidden, such as "a private address"; `undefined` if the service may connect to it. Anything
 * but an IP address is forbidden. `isAllowed` lifts the ban, but never for a metadata address.
 */
export function findForbiddenKind(
  address: string,
  allowLoopback: boolean,
  isAllowed: (address: string) => boolean = () => false,
): string | undefined {
  const ip = withoutZone(address);
  if (isIP(ip) === 0) return "not an IP address";
  if (allowLoopback && isLoopback(ip)) return undefined;
  const kind = kinds.find(({ includes }) => includes(ip))?.kind;
  return kind !== metadataKind && isAllowed(ip) ? undefined : kind;
}

/** Whether an IP address is this machine's own. */
export function isLoopbackAddress(address: string): boolean {
  return isIP(address) !== 0 && isLoopback(address);
}

/** Returns the IPv4 address in an IPv4-mapped IPv6 address such as ::ffff:10.0.0.5, and any other address unchanged. */
export function unmapAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}

/**
 * Returns a function that checks whether an address is in one of these networks, such as "10.0.0.0/8". Throws
 * an Error for an invalid one.
 */
export function createNetworkMatcher(networks: readonly string[]): (address: string) => boolean {
  for (const network of networks) {
    const [, address = "", prefix] = /^([^/]+)\/(\d{1,3})$/.exec(network) ?? [];
    const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0;
    if (bits === 0 || Number(prefix) > bits) throw new Error(`${network} is not a network such as 10.0.0.0/8`);
  }
  const includes = createMatcher(networks);
  return (address) => isIP(address) !== 0 && includes(address);
}

/** Uses one list per family, because in a common list ::ffff:0:0/96 would match all IPv4 addresses. */
function createMatcher(ranges: readonly string[]): (address: string) => boolean {
  const lists = { 4: new BlockList(), 6: new BlockList() };
  for (const range of ranges) {
    const [network = "", prefix] = range.split("/");
    const family = isIP(network) === 4 ? "ipv4" : "ipv6";
    lists[family === "ipv4" ? 4 : 6].addSubnet(network, Number(prefix), family);
  }
  return (address) => (isIP(address) === 4 ? lists[4].check(address, "ipv4") : lists[6].check(address, "ipv6"));
}
