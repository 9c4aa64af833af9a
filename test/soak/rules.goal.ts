import { prove } from "../faults/goal.ts";
import { forbiddenAddresses } from "./forbidden.ts";
import { interfaceRows } from "./interface.ts";
import { listening } from "./listen.ts";
import { origins } from "./origins.ts";
import { signatures } from "./signatures.ts";

// What the service is to whoever calls it, and to whomever it calls, in full.
for (const goal of [forbiddenAddresses, origins, signatures, interfaceRows, listening]) prove(goal, 1);
