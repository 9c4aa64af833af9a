import type { Io } from "../../io.ts";
import { lookLocal } from "../local.ts";
import { type Check, fail, failBy, pass, warn } from "./check.ts";
import { roomElsewhere, whyNotKept } from "./room.ts";

const fix = "Mend it, make room, or name another folder with VIDGEN_HOME.";

/** The local service: whether it runs on this machine, and where it keeps its state. */
export async function checkLocalService(io: Io): Promise<Check> {
  try {
    const { folder, note, baseUrl } = await lookLocal(io);
    const runs = baseUrl === undefined ? "does not run; --local runs it as needed" : `runs at ${baseUrl}`;
    const says = `${runs}; its state is in ${folder}`;
    const reason = await whyNotKept(folder);
    if (reason !== undefined)
      return fail("local service", `${says}, which cannot be written: ${reason}`, { code: "output", fix });
    const all = `${says}${await roomElsewhere(folder)}`;
    return note === undefined ? pass("local service", all) : warn("local service", all, note);
  } catch (error) {
    return failBy("local service", error, fix);
  }
}
