"""
Answers of requests that an SDK sends again.

On a busy machine, Pulumi's provider loses the answer of about one request in a thousand, and sends the request again
with the same invocation ID (3 of 3,200, November 2026). moto would create the same object twice, or refuse the second
request.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

KEPT = 1000

Answer = tuple[str, list[tuple[str, str]], bytes]


def install() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication  # noqa: PLC0415  moto reads its environment on import

    original = DomainDispatcherApplication.__call__
    answers: OrderedDict[str, Answer] = OrderedDict()

    def answer(app: Any, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        invocation = environ.get("HTTP_AMZ_SDK_INVOCATION_ID")
        if invocation is None:
            return original(app, environ, start_response)
        if invocation not in answers:
            status, headers = "", []

            def note(given: str, fields: list[tuple[str, str]], *_: Any) -> None:
                nonlocal status, headers
                status, headers = given, fields

            body = b"".join(original(app, environ, note))
            if not status.startswith("2"):
                start_response(status, headers)
                return [body]
            answers[invocation] = (status, headers, body)
            if len(answers) > KEPT:
                answers.popitem(last=False)
        status, headers, body = answers[invocation]
        start_response(status, headers)
        return [body]

    DomainDispatcherApplication.__call__ = answer
