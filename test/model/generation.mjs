// The world of a generation, from the line that starts it to its file: commands, two processes that are killed, suspended and continued between any two
// steps, services that lie, clocks that jump, and torn lines.
//
// S: the state. c: the scene. A: attempts (st state, own the serial number of its process, dis dismissed, nw --no-wait, k key, got its video was handed over,
// chg charged, cg its generation). P: two process slots (sn serial number, c command, pc step, fz suspended, oc outcome). G: generations at the service.
import { readTables } from "./tables.mjs";

const { table1: T1, table2: T2 } = readTables();
/** The rules of this world, as the page has them. `--without` takes the other value. */
export const rules = {
  intentEv: true,
  perSend: true,
  statusDelivers: false,
  nwTold: true,
  sendingWaitsAlways: true,
  jumpSafe: true,
  foreignKeeps: false,
  idFirst: true,
  heal: true,
  noReplace: true,
  waitEnds: true,
  foundOnUnclear: false,
  nwDelivers: false,
  retryConfirms: true,
  dismissAliveRefused: true,
  namedApart: true,
  freeFirst: true,
  noAge: true,
};
const defaults = { truth: [], keepsKeys: false, machines: [0, 0], n: 3, kills: 2, freezes: 1 };
export const initial = (scene) => init({ ...defaults, ...scene.use, ...scene });
export const steps = (state, scene) => next(state, { ...defaults, ...scene.use, ...scene });
const init = (c) => ({
  A: [],
  P: [null, null],
  lock: -1,
  tgt: -1,
  file: -1,
  G: [],
  key: -1,
  n: c.n,
  k: c.kills,
  f: c.freezes,
  sn: 0,
  torn: 0,
  jmp: c.jump ? 1 : 0,
  pt: c.passTime ? 1 : 0,
});
const cl = (x) => JSON.parse(JSON.stringify(x));
const slot = (S, sn) => S.P.findIndex((p) => p && p.sn === sn);
// What process i may see of a lease that sn holds.
function views(S, c, i, sn) {
  if (sn < 0) return ["dead"];
  const q = slot(S, sn);
  if (q === i) return ["dead"];
  // released for good or killed: the serial alone says on which machine it ran
  const same = c.machines[sn % 2] === c.machines[i];
  if (q >= 0 && same) return ["alive"];
  if (q >= 0 && !S.P[q].fz) return ["unsure", "alive"];
  return same ? ["dead"] : ["unsure", "dead"];
}
const T = (st, ev) => T1[st]?.[ev] ?? st;
function ev(S, c, a, e) {
  // one line about an attempt
  if (S.torn && !c.heal) {
    S.torn = 0;
    return;
  } // it is appended to a torn line and lost with it
  S.torn = 0;
  a.st = T(a.st, e);
}
function evId(S, c, id, e) {
  // one line about an id: every attempt that has it
  if (S.torn && !c.heal) {
    S.torn = 0;
    return;
  }
  S.torn = 0;
  for (const a of S.A)
    if (a.id === id) {
      if (e === "unclear" && T1[a.st].unclear === "unknown") a.unc = 1;
      a.st = T(a.st, e);
    }
}
// Table 2 for one attempt.
function cell(a, lease, mode) {
  const k = a.st === "running" && a.nw ? `running+told|${lease}|${mode}` : `${a.st}|${lease}|${mode}`;
  // Sending again is in the world of keys; here the service remembers a key only if the caller named it.
  const x = T2[k];
  if (x === "watch") return "wait";
  return mode !== "named" && x.startsWith("send again") ? "refuse 6" : x;
}
const isOld = (c, a) => a.old === 2 || (a.old === 1 && !c.jumpSafe);
// What process p decides, given one lease view an attempt. Returns [kind, attempt?, dismissed[]].
function decide(S, c, p, vs) {
  const m = p.c.mode,
    named = m === "named";
  const idx = S.A.map((_, i) => i);
  if (named) {
    for (const i of idx.reverse()) {
      const a = S.A[i];
      if (!a.key) continue;
      let x = cell(a, vs[i], m);
      if (a.dis && ["sending", "unknown", "lost"].includes(a.st)) x = "send";
      if (x.startsWith("send again")) x = c.keepsKeys ? "send" : "refuse 6";
      if (x === "send") continue;
      return [x.split(" ")[0], i, []];
    }
    return ["new", -1, []];
  }
  const cand = idx.filter((i) => {
    const a = S.A[i];
    return !a.dis && !(c.namedApart && a.key) && (m === "reuse" || a.out === p.c.out || a.st === "ready");
  });
  if (m === "reuse") cand.reverse();
  const dis = [];
  let first;
  for (const i of cand) {
    const a = S.A[i];
    let x = cell(a, vs[i], m).split(" ")[0];
    if (c.nwTold && a.nw && a.st === "running" && !a.told && m === "same")
      x = cell({ ...a, nw: 0 }, vs[i], m).split(" ")[0];
    if (
      ["resume", "join", "wait"].includes(x) &&
      isOld(c, a) &&
      !(c.noAge && a.st !== "delivered") &&
      !(c.sendingWaitsAlways && a.st === "sending")
    )
      x = "pass";
    if (m === "again") {
      if (x === "dismiss") dis.push(i);
      continue;
    }
    if (x === "pass") continue;
    if (!first) first = [x, i, []];
    else if ((m === "reuse" || c.freeFirst) && first[0] === "refuse" && (x === "resume" || x === "join"))
      first = [x, i, []];
  }
  return first ?? ["new", -1, dis];
}
function combos(lists) {
  return lists.reduce((r, l) => r.flatMap((x) => l.map((y) => [...x, y])), [[]]);
}
// May a person accept that this start passed over attempt b, which was charged?
function accepted(_c, G, b, seen) {
  if (!seen) return "it was not seen at all (a race)";
  const [st, lease, old, got, told, nw, dis] = seen,
    g = G[b.cg]?.st;
  if (dis) return b.dz ? "it was dismissed while its process lived, before its send, and sent all the same" : "";
  if (st === "delivered") return got ? "" : "it counts as delivered, and nobody has its video";
  if (st === "failed" && g !== undefined && g !== "failed" && g !== "done")
    return `it counts as failed, and its own generation is ${g}`;
  if (st === "failed") return "";
  if (lease === "alive" || (nw && st === "running" && told)) return "";
  if (old === 1) return `a clock jumped: ${st} ${lease} counts as older than 12 h`;
  if (old === 2 && b.unc) return `unclear once, ${st} by a look, passed over by its age`;
  if (old === 2) return st === "ready" || st === "running" ? "" : `${st} ${lease}, 12 h old, is passed over`;
  if (lease === "alive") return "";
  if (nw && st === "running") return "started with --no-wait, but its id was never told";
  return `it counts as ${st} ${lease}`;
}
function next(S, c) {
  const out = [];
  const add = (label, f) => {
    const N = cl(S);
    const v = [];
    f(N, v);
    out.push([label, N, v]);
  };
  // the world
  for (let i = 0; i < 2; i++) {
    const p = S.P[i],
      nm = p ? `${"AB"[i]}#${p.sn}` : "AB"[i];
    if (!p) {
      // serial numbers alternate with the machine: parity tells the machine of a dead one
      if (S.n > 0)
        for (const cmd of c.cmds)
          add(`${nm} types: ${cmd.t}`, (N) => {
            N.n--;
            let sn = N.sn;
            if (sn % 2 !== i % 2) sn++;
            N.sn = sn + 1;
            N.P[i] = {
              sn,
              c: cmd,
              pc: cmd.mode === "status" || cmd.mode === "dismiss" || cmd.mode === "waitid" ? cmd.mode : "lock",
              fz: 0,
              a: -1,
              oc: "",
              oid: -1,
              seen: null,
              w: 0,
            };
          });
      continue;
    }
    if (S.k > 0 && !p.fz)
      add(`${nm} is killed (at ${p.pc})`, (N, v) => {
        N.k--;
        if (c.p2 && !c.idFirst && p.pc === "outcome" && p.oc === "ask" && !p.idw)
          v.push("P2: a paid id arrived, was asked about, and is written nowhere");
        if (c.torn && ["intent", "outcome", "found", "end", "dlv"].includes(p.pc)) N.torn = 1;
        N.P[i] = null;
      });
    if (S.k > 0 && !p.fz && c.torn && p.pc === "outcome")
      add(`${nm} is killed within its append`, (N) => {
        N.k--;
        N.torn = 1;
        N.P[i] = null;
      });
    if (S.f > 0 && !p.fz)
      add(`${nm} freezes (at ${p.pc})`, (N) => {
        N.f--;
        N.P[i].fz = 1;
      });
    if (p.fz) {
      add(`${nm} thaws`, (N) => {
        N.P[i].fz = 0;
      });
      continue;
    }
    step(S, c, i, p, nm, add);
  }
  S.G.forEach((g, i) => {
    if (c.flip && !S.fl && ["failed", "gone"].includes(g.st))
      for (const st of g.st === "gone" ? ["run", "done"] : ["done"])
        add(`generation ${i} is ${st} after all`, (N) => {
          N.G[i].st = st;
          N.fl = 1;
        });
    if (g.st !== "run") return;
    for (const st of ["done", "failed", ...(c.engine ? ["unclear"] : []), ...(c.forget ? ["gone"] : [])])
      add(`generation ${i} is ${st}`, (N) => {
        N.G[i].st = st;
      });
  });
  if (S.jmp && S.A.length)
    add("a clock jumps by 13 h", (N) => {
      N.jmp--;
      for (const a of N.A) a.old ||= 1;
    });
  if (S.pt && S.A.length && !S.P.some(Boolean))
    add("13 hours pass", (N) => {
      N.pt--;
      for (const a of N.A) a.old = 2;
    });
  return out;
}
const done = (N, i) => {
  const p = N.P[i];
  for (const a of N.A) if (a.own === p.sn) a.own = -1;
  if (N.tgt === p.sn) N.tgt = -1;
  if (N.lock === p.sn) N.lock = -1;
  N.P[i] = null;
};
function charge(N, c, p, a, v) {
  const gid = N.G.length,
    ia = N.A.indexOf(a);
  for (const [j, b] of N.A.entries()) {
    const sameRun = p.c.mode === "named" ? b.key : b.out === p.c.out && !b.key;
    if (p.c.mode === "named" && b.key && b.dis && b.by === "again") {
      v.push(`P1: --again, typed without the key, dismissed the attempt of a key: the key is sent again (${b.st})`);
      continue;
    }
    if (!sameRun || !b.chg || p.c.mode === "again") continue;
    if (p.c.mode === "named") {
      v.push(`P1: a second charge under one key; before the send its state was: ${p.was || "none"}`);
      continue;
    }
    if (b === a) continue;
    // the newer of the two has decided to pass over the older
    const [older, newer, io] = j < ia ? [b, a, j] : [a, b, ia];
    if (newer.mode === "again") continue;
    const why = accepted(c, N.G, older, newer.seen?.[io], gid);
    if (why) v.push(`P1: a second charge for the same run: ${why}`);
  }
  if (p.c.mode === "again") for (const b of N.A) if (!b.key) b.chg = 0;
  a.chg++;
  a.cg = gid;
}
function step(S, c, i, p, nm, add) {
  const go = (label, f) => add(`${nm} ${label}`, f);
  const a = S.A[p.a];
  switch (p.pc) {
    case "lock": {
      const free = S.lock < 0 || views(S, c, i, S.lock).includes("dead");
      if (free)
        go("takes the journal's lock", (N) => {
          N.lock = p.sn;
          N.P[i].pc = "choose";
        });
      else if (!c.waitEnds && S.P[slot(S, S.lock)]?.fz && !p.w)
        go("waits for the lock of a frozen process on its own machine", (N, v) => {
          N.P[i].w = 1;
          v.push("P4: waits without an end for the lock of a stopped process");
        });
      return;
    }
    case "choose": {
      for (const vs of combos(S.A.map((x) => views(S, c, i, x.own)))) {
        const [kind, j, dis] = decide(S, c, p, vs);
        const b = S.A[j];
        if (kind === "new") {
          // the target: one writer; it may not exist
          if (p.c.out !== null) {
            if (S.file >= 0) {
              go("ends: the file exists", (N) => done(N, i));
              continue;
            }
            const tv = views(S, c, i, S.tgt);
            if (tv.some((x) => x !== "dead")) waits(`its target is held (${tv})`, S.tgt, vs);
            if (!tv.includes("dead")) continue;
          }
          go(
            `chooses a new attempt (saw ${S.A.map((x, q) => `${x.st}${x.nw ? "+nw" : ""} ${vs[q]}${x.dis ? " dismissed" : ""}${x.old ? " old" : ""}`).join(", ") || "nothing"})`,
            (N) => {
              const q = N.P[i];
              q.pc = "intent";
              q.ds = dis;
              q.seen = N.A.map((x, z) => [x.st, vs[z], x.old, x.got, x.told, x.nw, x.dis]);
              q.was = N.A.filter((x) => x.key)
                .map((x, _z) => `${x.st}${x.dis ? " dismissed" : ""}`)
                .join(",");
              if (p.c.out !== null) N.tgt = p.sn;
            },
          );
        } else if (kind === "refuse")
          go(`refuses (${b.st} ${vs[j]})`, (N, v) => {
            const z = S.A.findIndex(
              (x, q) =>
                q !== j &&
                !x.dis &&
                !x.key &&
                x.out === p.c.out &&
                ["running", "ready"].includes(x.st) &&
                !x.nw &&
                vs[q] === "dead" &&
                !x.old,
            );
            if (z >= 0 && p.c.mode === "same")
              v.push(`U: a refusal (${b.st}) hides a paid one that could be resumed for nothing (${S.A[z].st})`);
            done(N, i);
          });
        else if (kind === "wait") waits(`it is ${b.st} ${vs[j]}`, b.own, vs);
        else
          go(`${kind}s attempt ${j} (${b.st} ${vs[j]})`, (N) => {
            const q = N.P[i];
            q.a = j;
            N.lock = -1;
            if (vs[j] === "dead") N.A[j].own = p.sn;
            q.pc = p.c.nw ? "print" : "follow";
            q.oid = N.A[j].id;
            if (b.st === "failed" || (b.st === "delivered" && p.c.out === null)) done(N, i);
          });
      }
      function waits(why, holder) {
        const h = S.P[slot(S, holder)];
        go(`waits: ${why}`, (N, v) => {
          N.lock = -1;
          N.P[i].pc = "lock";
          if (!c.waitEnds && h?.fz && c.machines[0] === c.machines[1])
            v.push(`P4: waits without an end for a stopped process (${why.split(" (")[0]})`);
        });
      }
      return;
    }
    case "intent":
      go("writes its intent", (N) => {
        const q = N.P[i];
        q.pc = "confirm";
        for (const d of q.ds ?? []) {
          N.A[d].dis = 1;
          N.A[d].by = "again";
        }
        const key = p.c.mode === "named" ? 1 : 0;
        const lost = N.torn && !c.heal;
        N.torn = 0;
        let j = key && !c.perSend ? N.A.findIndex((x) => x.key) : -1;
        if (j < 0) {
          j = N.A.length;
          N.A.push({
            st: lost ? "unsent" : "sending",
            own: p.sn,
            dis: 0,
            id: -1,
            out: p.c.out,
            nw: p.c.nw ? 1 : 0,
            key,
            old: 0,
            chg: 0,
            cg: -1,
            told: 0,
            got: 0,
            mode: p.c.mode,
            seen: q.seen,
          });
          if (lost) N.A[j].ghost = 1;
        } else {
          N.A[j].own = p.sn;
          if (c.intentEv) {
            if (N.A[j].st !== "unknown" || N.A[j].dis) N.A[j].st = "sending";
            N.A[j].dis = 0;
          }
        }
        q.a = j;
      });
      return;
    case "confirm":
      if (S.lock === p.sn)
        go("confirms the lock", (N) => {
          N.lock = -1;
          N.P[i].pc = "send";
        });
      else
        go("has lost the lock: writes unsent, ends", (N) => {
          ev(N, c, N.A[p.a], "unsent");
          done(N, i);
        });
      return;
    case "send": {
      if (c.retryConfirms && (a.own !== p.sn || a.dis)) {
        go("finds that its attempt was taken: sends nothing", (N) => done(N, i));
        return;
      }
      const o = (label, oc, f) =>
        go(`sends: ${label}`, (N, v) => {
          const q = N.P[i];
          q.pc = "outcome";
          q.oc = oc;
          f?.(N, v, q, N.A[p.a]);
        });
      if (p.c.mode === "named" && c.keepsKeys && S.key >= 0) {
        o("the service knows the key, same id", "accepted", (N, _v, q) => {
          q.oid = N.key;
        });
        o("no answer", "unknown");
        o("refused", "refused");
        return;
      }
      const acc = (N, v, _q, x) => {
        charge(N, c, p, x, v);
        N.G.push({ st: "run" });
        if (p.c.mode === "named") N.key = N.G.length - 1;
        return N.G.length - 1;
      };
      o("accepted, id", "accepted", (N, v, q, x) => {
        q.oid = acc(N, v, q, x);
      });
      o("accepted, no answer", "unknown", (N, v, q, x) => {
        acc(N, v, q, x);
      });
      o("not accepted, no answer", "unknown");
      o("no byte written", "unsent");
      o("refused", "refused");
      if (c.refuseId)
        o("4xx with an id that was charged", "ask", (N, v, q, x) => {
          q.oid = acc(N, v, q, x);
        });
      if (c.foreign && S.G.length)
        o("accepted, the answer has another attempt's id", "foreign", (N, v, q, x) => {
          acc(N, v, q, x);
          q.oid = 0;
        });
      if (c.retry && !p.w)
        go("gets no connection, waits to try again", (N) => {
          N.P[i].w = 1;
        });
      return;
    }
    case "outcome":
      if (p.oc === "ask") {
        if (c.idFirst && !p.idw) {
          go("writes the id down", (N) => {
            N.A[p.a].id = p.oid;
            N.P[i].idw = 1;
          });
          return;
        }
        go("asks for the refused id: it is known", (N) => {
          N.P[i].oc = "accepted";
        });
        go("asks for the refused id: not known (wrongly)", (N) => {
          N.P[i].oc = "refused";
          N.A[p.a].id = p.oid;
          N.A[p.a].chg = 0;
        });
        go("asks for the refused id: no answer", (N) => {
          N.P[i].oc = "unknown+id";
        });
        return;
      }
      go(`writes ${p.oc}`, (N) => {
        const x = N.A[p.a],
          q = N.P[i];
        if (p.oc === "foreign") {
          if (c.foreignKeeps) x.id = p.oid;
          ev(N, c, x, "unknown");
          done(N, i);
          return;
        }
        if (p.oc === "unknown+id") {
          x.id = p.oid;
          ev(N, c, x, "unknown");
          done(N, i);
          return;
        }
        const t = N.torn && !c.heal;
        ev(N, c, x, p.oc);
        if (p.oc !== "accepted") {
          done(N, i);
          return;
        }
        if (!t && x.id < 0) x.id = p.oid;
        q.pc = p.c.nw ? "print" : "follow";
      });
      return;
    case "print":
      go("prints the id and ends (--no-wait)", (N) => {
        N.A[p.a].told = 1;
        if (c.nwDelivers && !N.A[p.a].nw) ev(N, c, N.A[p.a], "delivered");
        done(N, i);
      });
      return;
    case "follow": {
      const g = S.G[p.oid];
      if (!g) {
        go("has no id, ends", (N) => done(N, i));
        return;
      }
      if (
        ["unknown", "lost"].includes(a.st) &&
        p.oid >= 0 &&
        a.id === p.oid &&
        g.st !== "gone" &&
        (c.foundOnUnclear || g.st !== "unclear") &&
        !p.fd
      ) {
        go("writes found", (N) => {
          evId(N, c, p.oid, "found");
          N.P[i].fd = 1;
        });
        return;
      }
      if (g.st === "done")
        go("writes completed", (N) => {
          evId(N, c, p.oid, "completed");
          N.P[i].pc = "tgt";
        });
      if (g.st === "failed")
        go("writes failed", (N) => {
          evId(N, c, p.oid, "failed");
          done(N, i);
        });
      if (g.st === "unclear")
        go("writes unclear", (N) => {
          evId(N, c, p.oid, "unclear");
          done(N, i);
        });
      if (g.st === "gone")
        go("writes lost", (N) => {
          evId(N, c, p.oid, "lost");
          done(N, i);
        });
      return;
    }
    case "tgt": {
      if (p.c.out === null) {
        go("prints the URL", (N) => {
          N.A[p.a].got = 1;
          N.P[i].pc = "dlv";
        });
        return;
      }
      if (S.file >= 0) {
        go(S.file === p.a ? "takes the file that is there" : "ends: the file exists", (N) => done(N, i));
        return;
      }
      if (S.tgt === p.sn) {
        go("downloads", (N) => {
          N.P[i].pc = "conf2";
        });
        return;
      }
      const tv = views(S, c, i, S.tgt);
      if (tv.includes("dead"))
        go("takes the target", (N, _v) => {
          N.tgt = p.sn;
        });
      const h = S.P[slot(S, S.tgt)];
      if (!tv.includes("dead") && h?.fz && !c.waitEnds && !p.w)
        go("waits for the target of a stopped process", (N, v) => {
          N.P[i].w = 1;
          v.push("P4: waits without an end for the target of a stopped process");
        });
      return;
    }
    case "conf2":
      if (S.tgt === p.sn)
        go("confirms the target", (N) => {
          N.P[i].pc = "ren";
        });
      else go("has lost the target: stops", (N) => done(N, i));
      return;
    case "ren":
      go("renames", (N, v) => {
        if (N.file >= 0 && c.noReplace) {
          done(N, i);
          return;
        }
        if (N.file >= 0)
          v.push(
            `P3: a frozen process renames over ${N.file === p.a ? "the same attempt's file" : "another attempt's delivered file"}`,
          );
        N.file = p.a;
        N.A[p.a].got = 1;
        for (const [z, x] of N.A.entries()) if (z !== p.a && N.file === z) x.got = 0;
        N.P[i].pc = "dlv";
      });
      return;
    case "dlv":
      go("writes delivered", (N) => {
        evId(N, c, p.oid, "delivered");
        if (a.id < 0) ev(N, c, N.A[p.a], "delivered");
        done(N, i);
      });
      return;
    case "status": {
      S.A.forEach((x, j) => {
        if (x.id < 0) return;
        const g = S.G[x.id];
        if (g.st === "done")
          go(`status of generation ${x.id}: the URL is on stdout`, (N) => {
            if (["unknown", "lost"].includes(x.st)) evId(N, c, x.id, "found");
            evId(N, c, x.id, "completed");
            if (c.statusDelivers || x.out === null) {
              evId(N, c, x.id, "delivered");
              if (x.out === null) N.A[j].got = 1;
            }
            done(N, i);
          });
        else if (g.st !== "gone")
          go(`status of generation ${x.id}: ${g.st}`, (N) => {
            if (["unknown", "lost"].includes(x.st) && (c.foundOnUnclear || g.st !== "unclear"))
              evId(N, c, x.id, "found");
            if (g.st === "failed") evId(N, c, x.id, "failed");
            if (g.st === "unclear") evId(N, c, x.id, "unclear");
            done(N, i);
          });
      });
      return;
    }
    case "waitid":
      S.A.forEach((x, j) => {
        if (x.id >= 0)
          go(`waits for generation ${x.id}`, (N) => {
            const q = N.P[i];
            q.a = j;
            q.oid = x.id;
            q.pc = "follow";
          });
      });
      return;
    case "dismiss":
      S.A.forEach((x, j) => {
        if (x.dis || !["sending", "unknown", "lost"].includes(x.st)) return;
        const vs = views(S, c, i, x.own);
        if (x.st === "sending" && !vs.includes("dead") && (c.dismissAliveRefused || !vs.includes("unsure"))) return;
        go(`dismisses attempt ${j} (${x.st} ${vs})`, (N) => {
          const o = slot(N, x.own);
          if (o >= 0 && ["confirm", "send"].includes(N.P[o].pc)) N.A[j].dz = 1;
          N.A[j].dis = 1;
          N.A[j].chg = 0;
          done(N, i);
        });
      });
      return;
  }
}

const X = {
  same: (out, nw) => ({ mode: "same", out, nw, t: `generate${out ? " -o f" : ""}${nw ? " --no-wait" : ""}` }),
  m: (mode, out = null, nw) => ({
    mode,
    out,
    nw,
    t:
      {
        named: "generate --idempotency-key K",
        reuse: "generate --reuse",
        again: "generate --again",
        status: "status <id>",
        dismiss: "list --dismiss",
        waitid: "wait <id>",
      }[mode] +
      (out ? " -o f" : "") +
      (nw ? " --no-wait" : ""),
  }),
};
const F = "f";
export const scenes = {
  plain: { cmds: [X.same(F)], engine: true, forget: true, n: 3 },
  stdout: { cmds: [X.same(null)], n: 3 },
  status: { cmds: [X.same(F), X.m("status")], n: 3, kills: 1, freezes: 0 },
  nowait: { cmds: [X.same(null, 1)], n: 2, kills: 2, freezes: 0 },
  nowaitmix: { cmds: [X.same(null, 1), X.same(null)], n: 3, kills: 1, freezes: 0 },
  named: { cmds: [X.m("named")], n: 3, kills: 2 },
  namedFar: { cmds: [X.m("named")], n: 3, kills: 1, machines: [0, 1] },
  namedKeys: { cmds: [X.m("named")], n: 3, kills: 1, keepsKeys: true, machines: [0, 1] },
  namedDismiss: { cmds: [X.m("named"), X.m("dismiss")], n: 4, kills: 2, freezes: 0 },
  far: { cmds: [X.same(F)], n: 3, machines: [0, 1], kills: 1 },
  farWait: { cmds: [X.same(F), X.m("waitid", F)], n: 3, machines: [0, 1], kills: 1 },
  reuse: { cmds: [X.same(null), X.m("reuse")], n: 3, kills: 1, engine: true },
  again: { cmds: [X.same(null), X.m("again")], n: 4, kills: 2, freezes: 0, forget: true },
  dismiss: { cmds: [X.same(null), X.m("dismiss")], n: 3, machines: [0, 1], retry: true },
  jump: { cmds: [X.same(null)], n: 3, jump: true, machines: [0, 1], kills: 1 },
  time: { cmds: [X.same(null)], n: 3, passTime: true, kills: 2, freezes: 0, engine: true },
  timeFar: { cmds: [X.same(null)], n: 3, passTime: true, kills: 2, freezes: 0, machines: [0, 1] },
  unclear: { cmds: [X.same(null), X.m("waitid")], n: 4, engine: true, passTime: true, kills: 2, freezes: 0 },
  foreign: { cmds: [X.same(null), X.m("waitid")], n: 4, foreign: true, kills: 1, freezes: 0 },
  refuseId: { cmds: [X.same(null)], n: 2, refuseId: true, kills: 1, freezes: 0, p2: true },
  torn: { cmds: [X.same(null)], n: 3, torn: true, kills: 2, freezes: 0 },
  lost: { cmds: [X.same(F), X.m("waitid", F), X.m("status")], n: 3, forget: true, kills: 1, freezes: 0 },
  reuseFar: { cmds: [X.same(null), X.m("reuse")], n: 3, kills: 1, machines: [0, 1], forget: true },
  againFar: { cmds: [X.same(null), X.m("again")], n: 3, kills: 1, machines: [0, 1], forget: true },
  againReuse: { cmds: [X.same(null, 1), X.m("again"), X.m("reuse")], n: 4, kills: 1, freezes: 0, forget: true },
  namedNoWait: { cmds: [X.m("named", null, 1), X.m("named")], n: 3, kills: 1, forget: true, machines: [0, 1] },
  namedAgain: { cmds: [X.m("named"), X.m("again")], n: 3, kills: 1, freezes: 0 },
  unclearFlat: { cmds: [X.same(null), X.m("waitid")], n: 3, engine: true, passTime: true, kills: 1, freezes: 0 },
  hidden: { cmds: [X.same(null)], n: 3, kills: 2, freezes: 0 },
  foreignFlat: { cmds: [X.same(null)], n: 3, foreign: true, kills: 0, freezes: 0 },
  flip: {
    cmds: [X.same(null), X.m("waitid"), X.m("status")],
    n: 4,
    kills: 1,
    freezes: 0,
    forget: true,
    flip: true,
    engine: true,
  },
};
