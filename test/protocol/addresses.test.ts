import { expect, test } from "vitest";
import { createNetworkMatcher, findForbiddenKind, isPrivateAddress } from "../../src/protocol/addresses.ts";

/** The first and the last address of every special range, and some in the middle. */
const special: Record<string, string[]> = {
  "a metadata address": ["169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd00:ec2:0:0::254"],
  "a loopback address": ["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1", "::1%lo"],
  "a private address": [
    ...["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
    ...["100.64.0.0", "100.127.255.255", "fc00::", "fdff:ffff::1", "fec0::1", "feff:ffff::1"],
  ],
  "a link-local address": ["169.254.0.0", "169.254.255.255", "fe80::", "fe80::1%eth0", "febf:ffff::1"],
  "a multicast address": ["224.0.0.1", "239.255.255.255", "ff00::", "ff02::1", "ffff:ffff::1"],
  "an address reserved for examples": [
    ...["192.0.2.1", "198.51.100.255", "203.0.113.0", "198.18.0.0", "198.19.255.255"],
    ...["2001:db8::1", "3fff::1", "3fff:fff::1"],
  ],
  "an address that maps to another one": [
    ...["::", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:8.8.8.8"],
    ...["64:ff9b::7f00:1", "64:ff9b::169.254.169.254", "64:ff9b:1::1", "64:ff9b:1:ffff::1", "2002:7f00:1::1"],
  ],
  "a reserved address": [
    ...["0.0.0.0", "0.255.255.255", "192.0.0.1", "192.0.0.192", "192.31.196.1", "192.52.193.1", "192.88.99.1"],
    ...["192.175.48.1", "240.0.0.0", "255.255.255.254", "255.255.255.255"],
    ...["100::1", "2001::1", "2001:1ff:ffff::1", "2001:20::1", "2620:4f:8000::1", "5f00::1", "4000::1", "9000::1"],
  ],
  "not an IP address": ["", "localhost", "0x7f.1", "127.1", "2130706433", "[::1]", "10.0.0.1:80", "%eth0"],
};

test.each(Object.entries(special).flatMap(([kind, addresses]) => addresses.map((address) => [address, kind])))(
  "%s is %s",
  (address, kind) => {
    expect(findForbiddenKind(address, false)).toBe(kind);
  },
);

test.each([
  ...[
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "172.15.255.255",
    "172.32.0.0",
  ],
  ...["100.63.255.255", "100.128.0.0", "169.253.255.255", "169.255.0.0", "192.167.255.255", "192.169.0.0"],
  ...["198.17.255.255", "198.20.0.0", "223.255.255.255", "168.63.129.17"],
  ...["2001:200::1", "2001:4860:4860::8888", "2600::1", "2a00::1", "2003::1", "3ffe::1", "2000::1"],
])("%s is an ordinary address", (address) => {
  expect(findForbiddenKind(address, false)).toBeUndefined();
});

test.each(["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7fff:ffff"])(
  "%s may be reached while the service itself listens on loopback",
  (address) => {
    expect(findForbiddenKind(address, true)).toBeUndefined();
    expect(findForbiddenKind(address, false)).toBeDefined();
  },
);

test("nothing else that is special may be reached then", () => {
  const others = Object.entries(special).filter(([kind]) => kind !== "a loopback address");
  const addresses = others.flatMap(([, all]) => all).filter((address) => !/^::ffff:(127|7f)/.test(address));
  expect(addresses.filter((address) => findForbiddenKind(address, true) === undefined)).toEqual([]);
});

test("an owner may allow networks, though never a metadata address", () => {
  const isAllowed = createNetworkMatcher(["10.0.0.0/8", "fd00::/8", "169.254.0.0/16"]);
  const allowed = ["10.1.2.3", "fd00::1", "169.254.1.1"];
  for (const address of allowed) expect(findForbiddenKind(address, false, isAllowed)).toBeUndefined();
  for (const address of ["192.168.0.1", "169.254.169.254", "fd00:ec2::254", "127.0.0.1", "::ffff:10.0.0.1", "x"])
    expect(findForbiddenKind(address, false, isAllowed)).toBeDefined();
  for (const text of ["10.0.0.0", "10.0.0.0/33", "fd00::/129", "x/8", "/8", ""])
    expect(() => createNetworkMatcher([text])).toThrow(`${text} is not a network such as 10.0.0.0/8`);
});

test.each([
  ...["10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.0", "100.127.255.255"],
  ...["fc00::", "fdff:ffff::1", "fd12::1%eth0", "::ffff:10.0.0.1", "::ffff:a00:1", "::ffff:192.168.1.1"],
  ...["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"],
])("%s is private: a key may go there by plain http", (address) => {
  expect(isPrivateAddress(address)).toBe(true);
});

test.each([
  ...["9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "8.8.8.8"],
  ...["100.63.255.255", "100.128.0.0", "128.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "198.18.0.1"],
  ...["169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.0.1", "fec0::1", "fbff::1", "fe00::1", "ff02::1"],
  ...["2001:4860:4860::8888", "2001:db8::1", "::", "::ffff:8.8.8.8", "::ffff:808:808", "::10.0.0.1"],
  ...["64:ff9b::a00:1", "2002:a00:1::1", "169.254.169.254", "100.100.100.200", "::ffff:100.100.100.200"],
  ...["fd00:ec2::254", "168.63.129.16", "", "localhost", "10.1", "0x0a.0.0.1", "10.0.0.1:80", "[fd00::1]"],
])("%s is not private", (address) => {
  expect(isPrivateAddress(address)).toBe(false);
});
