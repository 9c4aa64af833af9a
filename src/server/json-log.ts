import type { DeliveryEvent } from "./callbacks/delivery.ts";
import { type RequestEvent, redactUrl, withoutQuery } from "./observe/log.ts";
import type { EndedGeneration } from "./outcomes.ts";

/**
 * Creates a log for programs: each event is one JSON document, without prompts and the queries of URLs. Bodies are left out unless `showBody` returns
 * what of a body is shown. Fields that are `undefined` are left out.
 */
export function createJsonLog(
  write: (document: object) => void,
  { date, showBody = () => undefined }: { date(): Date; showBody?(body: string): string | undefined },
) {
  const logEvent = (event: string, fields: object) => write({ time: date().toISOString(), event, ...fields });
  return {
    logEvent,
    onNote: (message: string) => logEvent("note", { message }),
    onRequest({ requestId, path, ms, ...event }: RequestEvent) {
      const { address, account, id, model, method, status, code, note, traceparent, requestBody, replyBody } = event;
      const about = { request_id: requestId, address, account, id, model, traceparent };
      const bodies = {
        request_body: requestBody === undefined ? undefined : showBody(requestBody),
        reply_body: replyBody === undefined ? undefined : showBody(replyBody),
      };
      const reply = { status, code, note, ms: Math.round(ms), ...bodies };
      logEvent("request", { ...about, method, path: withoutQuery(path), ...reply });
    },
    onEnd({ generation, reason }: EndedGeneration) {
      const { id, account, request, status, created_at, completed_at, error, cost } = generation;
      const { model, traceparent } = request;
      const ms = Date.parse(completed_at ?? created_at) - Date.parse(created_at);
      logEvent("ended", {
        account,
        id,
        model,
        traceparent,
        status,
        reason,
        error: error ?? undefined,
        cost: cost ?? undefined,
        ms,
      });
    },
    onDelivery({ account, generation: id, traceparent, url, attempt, outcome, isDelivered, nextMs }: DeliveryEvent) {
      const about = { account, id, traceparent, url: redactUrl(url), attempt, outcome };
      logEvent("callback", { ...about, delivered: isDelivered, next_ms: nextMs });
    },
  };
}
