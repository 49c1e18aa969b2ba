"""Operations on executions of pipelines. Moto stores the pipelines themselves."""

from __future__ import annotations

import secrets
import string
from typing import Any

from gpuproof_emulator.execution.pipelines.definition import parameter_values, parse_definition
from gpuproof_emulator.execution.pipelines.runner import EXECUTING, STOPPING, UNFINISHED, start_execution
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.operations.list import page
from gpuproof_emulator.protocol import AwsError, now
from gpuproof_emulator.store import PIPELINE_EXECUTION, Resource

_LETTERS = string.ascii_lowercase + string.digits


def start(call: OperationCall) -> dict[str, Any]:
    """`StartPipelineExecution`: runs training, processing and transform steps, one after another."""
    request = call.request
    pipeline = _pipeline(call)
    steps, parameters = parse_definition(pipeline["PipelineDefinition"])
    given = {item["Name"]: item["Value"] for item in request.get("PipelineParameters") or ()}
    values = parameter_values(parameters, given)
    identifier = "".join(secrets.choice(_LETTERS) for _ in range(12))
    arn = f"{pipeline['PipelineArn']}/execution/{identifier}"
    moment = now()
    document = {
        "PipelineArn": pipeline["PipelineArn"],
        "PipelineExecutionArn": arn,
        "PipelineExecutionDisplayName": request.get("PipelineExecutionDisplayName")
        or f"execution-{int(moment * 1000)}",
        "PipelineExecutionStatus": EXECUTING,
        "CreationTime": moment,
        "LastModifiedTime": moment,
    }
    if description := request.get("PipelineExecutionDescription"):
        document["PipelineExecutionDescription"] = description
    extra = {"steps": [], "role": pipeline["RoleArn"]}
    execution = Resource(PIPELINE_EXECUTION, call.region, identifier, document, extra=extra)
    call.context.store.add(execution)
    start_execution(call.context, execution, steps, values)
    return {"PipelineExecutionArn": arn}


def describe(call: OperationCall) -> dict[str, Any]:
    """`DescribePipelineExecution`."""
    return call.wait_until_settled(_find(call), "PipelineExecutionStatus").document


def list_steps(call: OperationCall) -> dict[str, Any]:
    """`ListPipelineExecutionSteps`, newest first."""
    steps = sorted(_find(call).extra["steps"], key=lambda step: step["StartTime"], reverse=True)
    if call.request.get("SortOrder") == "Ascending":
        steps.reverse()
    return page("PipelineExecutionSteps", steps, call.request)


def list_executions(call: OperationCall) -> dict[str, Any]:
    """`ListPipelineExecutions`, newest first."""
    arn = _pipeline(call)["PipelineArn"]
    executions = call.context.store.all(PIPELINE_EXECUTION, call.region)
    found = [execution.document for execution in executions if execution.document["PipelineArn"] == arn]
    found.sort(key=lambda item: item["CreationTime"], reverse=call.request.get("SortOrder") != "Ascending")
    return page(
        "PipelineExecutionSummaries",
        [{**item, "StartTime": item["CreationTime"]} for item in found],
        call.request,
    )


def stop(call: OperationCall) -> dict[str, Any]:
    """`StopPipelineExecution`: stops the job of the step that runs; later steps do not start."""
    execution = _find(call)
    with call.context.store.modify(execution):
        if execution.document["PipelineExecutionStatus"] not in UNFINISHED:
            raise AwsError("ValidationException", "Only an execution that is executing can be stopped.")
        execution.document["PipelineExecutionStatus"] = STOPPING
    for step in execution.extra["steps"]:
        for metadata in step.get("Metadata", {}).values():
            kind, _, name = metadata["Arn"].rpartition(":")[2].partition("/")
            if job := call.context.store.get(kind, call.region, name):
                call.jobs.stop(job)
    return {"PipelineExecutionArn": execution.document["PipelineExecutionArn"]}


OPERATIONS = {
    "StartPipelineExecution": start,
    "DescribePipelineExecution": describe,
    "ListPipelineExecutionSteps": list_steps,
    "ListPipelineExecutions": list_executions,
    "StopPipelineExecution": stop,
}


def _pipeline(call: OperationCall) -> dict[str, Any]:
    name = call.request["PipelineName"].rpartition("/")[2]
    client = call.context.clients.get("sagemaker", call.region)
    try:
        return client.describe_pipeline(PipelineName=name)
    except client.exceptions.ClientError as error:
        raise AwsError("ResourceNotFound", f"Pipeline '{name}' does not exist.") from error


def _find(call: OperationCall) -> Resource:
    arn = call.request["PipelineExecutionArn"]
    return call.find(
        PIPELINE_EXECUTION, arn.rpartition("/")[2], f"Pipeline execution '{arn}' does not exist."
    )
