import { prove } from "../faults/goal.ts";
import { busy } from "./busy.ts";

// What speed.ts measures would tell nothing beside other tests; this has slack.
prove(busy, 0.02);
