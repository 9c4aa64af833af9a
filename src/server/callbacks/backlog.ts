import type { Delivery } from "../store/store.ts";

/** Deliveries that wait, and room for those under way: 32 in all and 4 to one host, so that a dead receiver does not hold up others. */
export type Backlog = {
  add(delivery: Delivery): void;
  /** Takes out the one that is due for the longest, if there is one and room for it. */
  take(date: Date): Delivery | undefined;
  /** Gives back the room of one that was taken. */
  release(delivery: Delivery): void;
  /** When the next can be taken, in milliseconds since 1970; `Infinity` while that waits for room, or for nothing. */
  nextAt(): number;
  underWay(): number;
};

type Lane = { waiting: Delivery[]; underWay: number };

const mostAtOnce = 32;
const mostPerHost = 4;

export function createBacklog(): Backlog {
  const lanes = new Map<string, Lane>();
  let underWay = 0;

  /** The lane whose first delivery is due before all others that have room. */
  const nextLane = (): Lane | undefined => {
    let next: Lane | undefined;
    if (underWay < mostAtOnce)
      for (const lane of lanes.values()) if (hasRoom(lane) && isSooner(lane, next)) next = lane;
    return next;
  };

  return {
    add(delivery) {
      const host = hostOf(delivery.url);
      const lane = lanes.get(host) ?? { waiting: [], underWay: 0 };
      lanes.set(host, lane);
      const before = lane.waiting.findLastIndex(({ next_at }) => next_at <= delivery.next_at);
      lane.waiting.splice(before + 1, 0, delivery);
    },
    take(date) {
      const lane = nextLane();
      const [first] = lane?.waiting ?? [];
      if (!lane || !first || Date.parse(first.next_at) > date.getTime()) return undefined;
      lane.waiting.shift();
      lane.underWay++;
      underWay++;
      return first;
    },
    release({ url }) {
      const host = hostOf(url);
      const lane = lanes.get(host);
      if (!lane) return;
      lane.underWay--;
      underWay--;
      if (lane.underWay === 0 && lane.waiting.length === 0) lanes.delete(host);
    },
    nextAt() {
      const [first] = nextLane()?.waiting ?? [];
      return first ? Date.parse(first.next_at) : Number.POSITIVE_INFINITY;
    },
    underWay: () => underWay,
  };
}

function hasRoom({ waiting, underWay }: Lane): boolean {
  return waiting.length > 0 && underWay < mostPerHost;
}

function isSooner({ waiting: [first] }: Lane, other: Lane | undefined): boolean {
  const [best] = other?.waiting ?? [];
  return first !== undefined && (best === undefined || first.next_at < best.next_at);
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}
