import { sayNothingSent, VidgenError } from "../../errors.ts";
import type { Journal } from "./journal.ts";

type Withdrawal = { kind: "unsent" | "refused"; error: VidgenError };

/**
 * Records that an attempt was not sent, or was refused. Without this record the same command would refuse to
 * start, since the attempt may have been charged. Returns the attempt's error, which mentions a failed write.
 * Never rejects.
 */
export async function withdraw(
  attempt: string,
  { kind, error }: Withdrawal,
  journal: Pick<Journal, "withdraw">,
): Promise<VidgenError> {
  const { message: reason, code } = error;
  const isWritten = await journal.withdraw({ kind, attempt, reason, code }).then(
    () => true,
    () => false,
  );
  if (isWritten) return error;
  const { message } = kind === "unsent" ? sayNothingSent(error) : error;
  const messageWithNote = `${message} This could not be recorded: the same command may stop with exit 6.`;
  const hint = `If it does, \`vidgen list --dismiss ${attempt}\` closes the attempt, and the same command starts.`;
  return new VidgenError(code, messageWithNote, { ...error, cause: error }).with({ hint });
}
