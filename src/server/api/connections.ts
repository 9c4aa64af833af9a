import { isIP, type Socket } from "node:net";
import type { Clock } from "../../io.ts";

type Connection = Pick<Socket, "bytesRead" | "destroy">;

type ConnectionLimits = {
  /** Above this number of connections, silent ones are closed. */
  maxConnections: number;
  /** How many more are accepted if none is silent. Above that, a new connection is closed, although its request may have been sent. */
  spareConnections: number;
  /** Above this number in all, an address, or a /64 of IPv6 addresses, may have `maxPerAddress` connections before its own silent ones are closed. */
  crowdedConnections: number;
  maxPerAddress: number;
};

/** How long a connection stays open for a request that its client may be sending at this moment. */
export const drainMs = 300;

/** A new connection that has sent nothing for this long may be closed: a paid request comes on a new connection. */
const unusedMs = 2_000;

type Silence = { since: number; bytesRead: number };

/** Of all connections, or of those of one address: how many are open, and the silent ones in order, silent longest first. */
type Group = { address: string; size: number; used: Map<Connection, Silence>; unused: Map<Connection, Silence> };

const createGroup = (address = ""): Group => ({ address, size: 0, used: new Map(), unused: new Map() });

/**
 * The open connections of a server. Makes room for new ones, so that silent ones do not keep out other clients, such as a load balancer. It closes
 * the connection that has been silent longest after a finished request, and if there is none, the oldest one that has sent nothing. A connection on
 * which a request may be arriving is not closed. An address with many connections makes room first, and gets none of the spare ones; `isExempt`
 * says which addresses stand for many clients. The time per new connection does not depend on the number of connections.
 */
export function createConnections<Open extends Connection>(
  limits: ConnectionLimits,
  isExempt: (address: string) => boolean,
  { now }: Pick<Clock, "now">,
) {
  const all = createGroup();
  const byAddress = new Map<string, Group>();
  // A closed socket no longer has its address.
  const groupsOf = new Map<Connection, Group[]>();
  const setBusy = (connection: Connection) => {
    for (const { used, unused } of groupsOf.get(connection) ?? []) {
      used.delete(connection);
      unused.delete(connection);
    }
  };
  const remove = (connection: Connection) => {
    setBusy(connection);
    for (const group of groupsOf.get(connection) ?? []) if (--group.size === 0) byAddress.delete(group.address);
    groupsOf.delete(connection);
  };
  const closeSilent = (silent: Map<Connection, Silence>, minMs: number): boolean => {
    for (const [connection, { since, bytesRead }] of silent) {
      if (now() - since < minMs) return false;
      // Otherwise the head of a request is arriving.
      if (connection.bytesRead !== bytesRead) {
        setBusy(connection);
        continue;
      }
      remove(connection);
      connection.destroy();
      return true;
    }
    return false;
  };
  /** Closes two for each new one, so that the spare connections become free again. */
  const makeRoom = ({ used, unused }: Group, isFull: () => boolean) => {
    for (let closed = 0; closed < 2 && isFull(); closed++)
      if (!closeSilent(used, drainMs) && !closeSilent(unused, unusedMs)) return;
  };
  const setSilent = (connection: Open, { isUsed }: { isUsed: boolean }) => {
    const silence = { since: now(), bytesRead: connection.bytesRead };
    for (const { used, unused } of groupsOf.get(connection) ?? []) (isUsed ? used : unused).set(connection, silence);
  };
  return {
    open: () => groupsOf.keys() as IterableIterator<Open>,
    /** Adds a new connection, which is silent at first. Returns false if there is no room for it. */
    add(connection: Open, address: string): boolean {
      const client = networkOf(address);
      const own = isExempt(address) ? undefined : (byAddress.get(client) ?? createGroup(client));
      const isCrowding = () => own && all.size >= limits.crowdedConnections && own.size >= limits.maxPerAddress;
      if (own) makeRoom(own, () => isCrowding() === true);
      makeRoom(all, () => all.size >= limits.maxConnections);
      if (all.size >= limits.maxConnections + (isCrowding() ? 0 : limits.spareConnections)) return false;
      if (own) byAddress.set(client, own);
      const groups = own ? [all, own] : [all];
      for (const group of groups) group.size++;
      groupsOf.set(connection, groups);
      setSilent(connection, { isUsed: false });
      return true;
    },
    /** A request has arrived on the connection. */
    setBusy,
    /** The reply to a request has ended on the connection. */
    setUsed: (connection: Open) => setSilent(connection, { isUsed: true }),
    /** The connection is closed. */
    remove,
  };
}

/** Returns the first 64 bits of an IPv6 address, because one client has all addresses that begin with them, and any other address unchanged. */
function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = [], tail = []] = address.split("::").map((part) => part.split(":"));
  const zeros = Array(8 - head.length - tail.length).fill("0");
  return [...head, ...zeros, ...tail].slice(0, 4).join(":");
}
