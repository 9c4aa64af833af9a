import { secrecy } from "./canary.ts";
import { charges } from "./charges.ts";
import { cut } from "./cut.ts";
import { downloads } from "./downloads.ts";
import { prove } from "./goal.ts";
import { keys } from "./keys.ts";
import { sent } from "./sent.ts";
import { unsent } from "./unsent.ts";

// The goals that drive the client in this process, in full.
for (const goal of [charges, sent, unsent, cut, downloads, secrecy, keys]) prove(goal, 1);
