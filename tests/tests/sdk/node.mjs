// Calls the door as an application would, with OpenAI's Node SDK. Arguments: the SDK's folder, the base URL.
import assert from "node:assert";
import { createRequire } from "node:module";

const [folder, baseURL] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const OpenAI = require("openai");
const client = new OpenAI({ baseURL, apiKey: "sk-none", maxRetries: 2 });

const ask = (content, more = {}, options = {}) =>
  client.chat.completions.create({ model: "m", messages: [{ role: "user", content }], ...more }, options);

// A whole answer.
assert.equal((await ask("whole")).choices[0].message.content, "whole answer");

// A stream, to its end.
const words = [];
for await (const event of await ask("stream", { stream: true })) words.push(event.choices[0].delta.content);
assert.deepEqual(words, Array.from({ length: 20 }, (_, n) => `word ${n}`));

// A stream of a tool call, in pieces.
let call = "";
for await (const event of await ask("tools", { stream: true })) {
  call += event.choices[0].delta.tool_calls[0].function.arguments;
}
assert.equal(call, '{"a": 1, "b": 2}');

// An image of a megabyte within a message.
const image = Buffer.alloc(1 << 20).toString("base64");
const parts = [
  { type: "text", text: "image" },
  { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
];
assert.equal((await ask(parts)).choices[0].message.content, `${image.length} letters`);

// The SDK's own retries of a 429 that names a time.
assert.equal((await ask("flaky")).choices[0].message.content, "attempt 3");

// Errors of the door are errors of the SDK's kinds.
await assert.rejects(
  client.chat.completions.create({ model: "nobody", messages: [] }),
  (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
);

// A timeout of the client's.
await assert.rejects(ask("slow", {}, { timeout: 500, maxRetries: 0 }), OpenAI.APIConnectionTimeoutError);

// A client that stops reading a stream leaves it.
const stream = await ask("stream", { stream: true });
for await (const _ of stream) break;

// A stream whose engine dies is an error, not an end.
await assert.rejects(async () => {
  for await (const _ of await ask("dies", { stream: true }));
});

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, ["m", "m2"]);
console.log("ok");
