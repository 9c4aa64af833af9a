import { expect, test } from "vitest";
import { createNetworkMatcher } from "../../../src/protocol/addresses.ts";
import { clientAddress } from "../../../src/server/http/client-address.ts";

const proxy = "10.0.0.5";
const client = "203.0.113.7";

test.each([
  { name: "of a client that forges the header", peer: client, forwarded: "198.51.100.1", address: client },
  { name: "behind a proxy", peer: proxy, forwarded: client, address: client },
  {
    name: "behind a proxy, of a client that forges the header",
    peer: proxy,
    forwarded: `127.0.0.1, ${client}`,
    address: client,
  },
  { name: "behind two proxies", peer: proxy, forwarded: `198.51.100.1, ${client}, 10.0.0.6`, address: client },
  {
    name: "behind a proxy that is not trusted itself",
    peer: proxy,
    forwarded: `${client}, 192.0.2.9`,
    address: "192.0.2.9",
  },
  { name: "of a proxy that calls for itself", peer: proxy, forwarded: undefined, address: proxy },
  { name: "of a client inside the trusted network", peer: proxy, forwarded: "10.0.0.9", address: "10.0.0.9" },
  { name: "where the header holds no address", peer: proxy, forwarded: `${client}, unknown`, address: proxy },
  { name: "where the header is empty", peer: proxy, forwarded: "", address: proxy },
  { name: "with a port", peer: proxy, forwarded: `${client}:52000`, address: client },
  { name: "of IPv6 with a port", peer: proxy, forwarded: "[2001:db8::7]:52000", address: "2001:db8::7" },
  { name: "of IPv4 in IPv6", peer: `::ffff:${proxy}`, forwarded: `::ffff:${client}`, address: client },
])("the address $name", ({ peer, forwarded, address }) => {
  const headers = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
  const isTrusted = createNetworkMatcher(["10.0.0.0/28"]);
  expect(clientAddress({ socket: { remoteAddress: peer }, headers }, isTrusted)).toBe(address);
});

test("without a trusted network, the header is not read", () => {
  const incoming = { socket: { remoteAddress: "127.0.0.1" }, headers: { "x-forwarded-for": client } };
  expect(clientAddress(incoming, () => false)).toBe("127.0.0.1");
});
