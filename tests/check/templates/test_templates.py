"""CloudFormation and Terraform: what is written is known, what the tools work out is not."""

from pathlib import Path

import pytest

from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates import cloudformation, terraform
from gpuproof.linter.templates.resource import Resource


def of_terraform(text: str) -> list[Resource]:
    return terraform.resources(Unit("main.tf", text, "terraform"))


@pytest.mark.parametrize(
    ("expression", "certainty", "value"),
    [
        ("var.size", "default", "ml.g5.large"),
        ("local.fixed", "known", "ml.g5.xlarge"),
        ("local.through", "default", "ml.g5.large"),
        ('"${local.fixed}"', "known", "ml.g5.xlarge"),
        ("var.given", "default", "ml.g6.xlarge"),
        ("var.overruled", "default", "b"),
        pytest.param("var.by_stage", "unknown", None, id="which file of values is used is unknown"),
        pytest.param("local.circle", "unknown", None, id="a local that leads to itself"),
        ("local.fixed.x", "unknown", None),
    ],
)
def test_variables_and_locals_of_the_folder(
    tmp_path: Path, expression: str, certainty: str, value: object
) -> None:
    (tmp_path / "variables.tf").write_text(
        'variable "size" {\n  default = "ml.g5.large"\n}\nvariable "given" {\n  type = string\n}\n'
        'variable "overruled" {\n  default = "a"\n}\nvariable "by_stage" {\n  default = "a"\n}\n'
        'locals {\n  fixed = "ml.g5.xlarge"\n  through = var.size\n  circle = local.circle\n}\n'
    )
    (tmp_path / "terraform.tfvars").write_text('given = "ml.g6.xlarge"\noverruled = "a"\n')
    (tmp_path / "x.auto.tfvars").write_text('overruled = "b"\n')
    (tmp_path / "prod.tfvars").write_text('by_stage = "b"\n')
    text = f'resource "t" "n" {{\n  a = {expression}\n  list = [local.fixed]\n}}\n'
    (resource,) = terraform.resources(Unit(str(tmp_path / "main.tf"), text, "terraform"))
    found = resource.get("a")
    assert (found.certainty, found.value) == (certainty, value)
    assert found.span is not None
    assert found.span.line == 2
    assert resource.get("list").plain() == ["ml.g5.xlarge"]


def of_cloudformation(text: str) -> list[Resource]:
    return cloudformation.resources(Unit("t.yaml", text, "cloudformation"))


@pytest.mark.parametrize(
    ("expression", "certainty", "value"),
    [
        ('"ml.g5.xlarge"', "known", "ml.g5.xlarge"),
        ("3", "known", 3),
        ("1.5", "known", 1.5),
        ("true", "known", True),
        ("null", "known", None),
        ('"a\\"b"', "known", 'a"b'),
        ("var.size", "default", "ml.g5.large"),
        ("var.other", "unknown", None),
        ('"${var.size}-x"', "unknown", None),
        ('var.big ? "a" : "b"', "unknown", None),
        ('lookup(local.m, "a", "b")', "unknown", None),
        ("[for x in y : x]", "unknown", None),
        ("aws_iam_role.r.arn", "unknown", None),
        ("1 + 2", "unknown", None),
    ],
)
def test_expressions(expression: str, certainty: str, value: object) -> None:
    text = f'variable "size" {{\n  default = "ml.g5.large"\n}}\nresource "t" "n" {{\n  a = {expression}\n  b = 1\n}}\n'
    (resource,) = of_terraform(text)
    assert (resource.get("a").certainty, resource.get("a").value) == (certainty, value)
    assert resource.get("b").value == 1
    assert resource.get("c").is_absent


def test_lists_objects_and_nested_blocks() -> None:
    (resource,) = of_terraform(
        """
        resource "t" "n" {
          list = ["a", "b",
            "c"] // c
          map = { a = 1, "b" : 2
            c = [1] }
          /* a
             comment */
          block { x = 1 }
          block { x = 2 }
          dynamic "many" {
            for_each = var.x
            content { y = 1 }
          }
          policy = jsonencode({ Statement = [{ Action = "*" }] })
          text = <<-EOT
            hello
          EOT
        }
        """
    )
    assert resource.get("list").plain() == ["a", "b", "c"]
    assert resource.get("map").plain() == {"a": 1, "b": 2, "c": [1]}
    assert [item.at("x").value for item in resource.get("block").items or ()] == [1, 2]
    assert resource.get("many").is_unknown
    assert resource.get("policy", "Statement", 0, "Action").text == "*"
    assert (resource.get("text").text or "").strip() == "hello"


@pytest.mark.parametrize(
    "text", ["", "{", "resource", 'resource "a" "b" {', "}}}}", '"', "<<EOT", "a = [[[[", "\0\x01"]
)
def test_half_a_file_is_read_as_far_as_it_goes(text: str) -> None:
    of_terraform(text)


def test_deep_nesting_ends() -> None:
    of_terraform('resource "a" "b" {\n x = ' + "[" * 5000 + "\n}")
    of_terraform("a {" * 5000)


def test_intrinsic_functions_are_unknown_and_defaults_of_parameters_are_defaults() -> None:
    (resource,) = of_cloudformation(
        """
Parameters: {T: {Type: String, Default: ml.g5.xlarge}}
Resources:
  R:
    Type: AWS::X
    Properties:
      A: !Ref T
      B: {"Fn::GetAtt": [X, Y]}
      C: !Sub "${AWS::StackName}-x"
      D: !Sub "plain"
      E: [1, yes, null, 2.5]
      F: !If [a, b, c]
"""
    )
    assert (resource.get("A").certainty, resource.get("A").text) == ("default", "ml.g5.xlarge")
    assert resource.get("B").is_unknown
    assert resource.get("C").is_unknown
    assert resource.get("D").text == "plain"
    assert resource.get("E").plain() == [1, True, None, 2.5]
    assert resource.get("F").is_unknown
    assert resource.span.line == 5


@pytest.mark.parametrize(
    "text", ["", "a: [", "{{ x }}", "- a", "Resources: 1", "Resources: {A: 1}", "a: &x [*x]"]
)
def test_what_is_not_a_template_has_no_resources(text: str) -> None:
    assert of_cloudformation(text) == []
