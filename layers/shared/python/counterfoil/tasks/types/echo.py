"""`echo`: the result is what was sent. To try the API, the queue and the worker without anything outside."""

from pydantic import BaseModel, ConfigDict, JsonValue

from counterfoil.tasks.registry import TaskContext, task


class Echo(BaseModel):
    """Anything that JSON can hold."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    __pydantic_extra__: dict[str, JsonValue]


@task("echo", Echo)
def echo(_context: TaskContext, payload: Echo) -> JsonValue:
    """Answer with the payload itself."""
    return dict(payload.__pydantic_extra__)
