import { expect, test } from "vitest";
import { redactBody } from "../../../src/cli/terminal/trace.ts";
import { apiKey, createWorld, mediaUrl } from "../../vidgen.ts";

test("--verbose shows each request and reply of the API with its body, without keys and signatures", async () => {
  const world = await createWorld();
  const callback = ["--callback-url", "https://hooks.example/done?token=canary-token"];
  const run = await world.vidgen("generate", "a fox", ...callback, "--verbose");
  const id = /[0-9a-f-]{36}/.exec(run.stdout)?.[0];
  expect(run.stderr).toContain(
    '> {"prompt":"a fox","model":"wan-2.5","callback_url":"https://hooks.example/done?..."}\n',
  );
  expect(run.stderr).toContain(`< {"success":true,"data":{"id":"${id}","status":"processing"`);
  expect(run.stderr).toContain(`"status":"completed","video_url":"${mediaUrl}/${id}.mp4"`);
  for (const secret of [apiKey, "canary-token"]) expect(run.stderr).not.toContain(secret);
  expect((await world.vidgen("generate", "a fox")).stderr).not.toContain('"prompt"');
});

test.each([
  ['{"api_key":"vgs_1","name":"ci"}', '{"api_key":"[left out]","name":"ci"}'],
  ['{"webhook_secret" : "a\\"b", "id": "x"}', '{"webhook_secret" : "[left out]", "id": "x"}'],
  ['{"video_url":"https://cdn.example/v.mp4?X-Sig=1&e=2"}', '{"video_url":"https://cdn.example/v.mp4?..."}'],
  ['{"video_url":"https:\\/\\/cdn.example\\/v.mp4?sig=1"}', '{"video_url":"https:\\/\\/cdn.example\\/v.mp4?..."}'],
  ['{"u":"https://ann:pw@a.example/"}', '{"u":"https://...@a.example/"}'],
  ['{"imageUrl":"data:image/png;base64,iVBO"}', '{"imageUrl":"data:image/png;base64,..."}'],
  ['{"prompt":"why? a fox, a key"}', '{"prompt":"why? a fox, a key"}'],
])("of the body %s it shows %s", (body, shown) => {
  expect(redactBody(body)).toBe(shown);
});
