"""Calls the door as an application would, with OpenAI's Python SDK. Argument: the base URL."""
import base64
import sys
import time

import openai

base_url = sys.argv[1]
client = openai.OpenAI(base_url=base_url, api_key="sk-none", max_retries=2)


def ask(case, **more):
    messages = [{"role": "user", "content": case}]
    return client.chat.completions.create(model="m", messages=messages, **more)


# A whole answer.
answer = ask("whole")
assert answer.choices[0].message.content == "whole answer", answer
assert answer.usage.completion_tokens == 2

# A stream, to its end.
words = [event.choices[0].delta.content for event in ask("stream", stream=True)]
assert words == [f"word {n}" for n in range(20)], words

# A stream of a tool call, in pieces.
tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
pieces = [event.choices[0].delta.tool_calls[0].function.arguments for event in ask("tools", stream=True, tools=tools)]
assert "".join(pieces) == '{"a": 1, "b": 2}', pieces

# An image of a megabyte within a message.
image = base64.b64encode(bytes(1 << 20)).decode()
content = [
    {"type": "text", "text": "image"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
]
answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": content}])
assert answer.choices[0].message.content == f"{len(image)} letters", answer

# A transcription: a file in a form.
text = client.audio.transcriptions.create(model="m", file=("a.wav", bytes(200_000)))
assert text.text == "200000 bytes", text

# The SDK's own retries of a 429 that names a time.
answer = ask("flaky")
assert answer.choices[0].message.content == "attempt 3", answer

# Errors of the door are errors of the SDK's kinds.
try:
    client.chat.completions.create(model="nobody", messages=[])
    raise AssertionError("a model that nobody serves was answered")
except openai.NotFoundError as error:
    assert error.code == "model_not_found", error

# A timeout of the client's.
start = time.monotonic()
try:
    ask("slow", timeout=0.5, extra_headers={"x-stainless-retry-count": "0"})
    raise AssertionError("a slow answer came in time")
except openai.APITimeoutError:
    assert time.monotonic() - start < 15

# A stream whose engine dies is an error, not an end.
try:
    for _ in ask("dies", stream=True):
        pass
    raise AssertionError("a broken stream looked whole")
except openai.APIError as error:
    assert "engine" in str(error), error

# Models.
assert [model.id for model in client.models.list()] == ["m", "m2"]
print("ok")
