import { prove } from "../faults/goal.ts";
import { chain } from "./chain.ts";
import { engines } from "./engines.ts";
import { enginesBroken } from "./engines-broken.ts";
import { enginesDelay, enginesHeld } from "./engines-held.ts";
import { enginesKilled } from "./engines-killed.ts";
import { enginesUnclear } from "./engines-unclear.ts";
import { idleEngine } from "./idle-engine.ts";

// The same code as `npm run soak`, with smaller numbers.
for (const goal of [
  engines,
  enginesBroken,
  enginesKilled,
  chain,
  enginesUnclear,
  enginesHeld,
  enginesDelay,
  idleEngine,
])
  prove(goal, 0.03);
