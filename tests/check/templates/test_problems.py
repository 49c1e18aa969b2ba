"""Templates and requests that do not parse are reported with their line; valid and unfinished ones are not."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import check_paths
from support.check_helpers import write_files

REQUEST = '{\n "TrainingJobName": "t",\n "ResourceConfig": {"InstanceType": "ml.g5.xlarge"}\n}\n'
NOTEBOOK = 'resource "aws_sagemaker_notebook_instance" "n" {\n  name = "n"\n'
STACK = "Resources:\n  N:\n    Type: AWS::SageMaker::NotebookInstance\n"

BROKEN = {
    "trailing comma": ("job.json", REQUEST.replace('e"}\n', 'e"},\n'), 4, "not valid JSON"),
    "no comma": ("job.json", REQUEST.replace('"t",', '"t"'), 3, "not valid JSON"),
    "cut request": ("job.json", REQUEST[:-2], 4, "not valid JSON"),
    "stack in JSON": (
        "stack.json",
        '{"Resources": {"N": {"Type": "AWS::SageMaker::Model"}}\n',
        2,
        "not valid JSON",
    ),
    "stack in JSON, template": (
        "stack.template",
        '{"Resources": {"N": {"Type": "AWS::SageMaker::Model",}}}',
        1,
        "JSON",
    ),
    "stack": ("stack.yaml", STACK + '    Properties: "open\n', 5, "not valid YAML"),
    "indentation": (
        "stack.yaml",
        STACK + "   Properties:\n      InstanceType: ml.t3.medium\n",
        4,
        "not valid YAML",
    ),
    "tab": ("stack.yaml", STACK + "    Properties:\n\tInstanceType: x\n", 5, "not valid YAML"),
    "bracket": ("stack.yml", STACK + "    Properties: {A: [1}\n", 4, "not valid YAML"),
    "YAML request": (
        "job.yaml",
        "TrainingJobName: t\nResourceConfig: {InstanceType: ml.g5.xlarge\n",
        3,
        "YAML",
    ),
    "open block": ("main.tf", NOTEBOOK, 1, "`{` is never closed"),
    "extra brace": ("main.tf", NOTEBOOK + "}\n}\n", 4, "closes nothing"),
    "wrong bracket": ("main.tf", NOTEBOOK + "  tags = [1}\n}\n", 3, "closes nothing"),
    "no value": ("main.tf", NOTEBOOK + "  instance_type =\n}\n", 3, "no value"),
    "no equals": ("main.tf", NOTEBOOK + '  instance_type "ml.t3.medium"\n}\n', 3, "neither"),
    "lone name": ("main.tf", NOTEBOOK + "  instance_type\n}\n", 3, "neither"),
    "open string": ("main.tf", NOTEBOOK + '  instance_type = "ml.t3.medium\n}\n', 3, "never closed"),
    "colon": ("main.tf", NOTEBOOK + '  instance_type: "ml.t3.medium"\n}\n', 3, "instead of `=`"),
    "comma": ("main.tf", NOTEBOOK + '  instance_type = "ml.t3.medium",\n}\n', 3, "no commas"),
    "twice": ("main.tf", NOTEBOOK + '  name = "m"\n}\n', 3, "set twice"),
    "one line": ("main.tf", NOTEBOOK + '  role = "r" type = "t"\n}\n', 3, "a line of its own"),
    "list": ("main.tf", NOTEBOOK + '  subnets = ["a"\n "b"]\n}\n', 4, "no comma before"),
    "label": ("main.tf", 'resource "aws_sagemaker_notebook_instance" {\n}\n', 1, "two labels"),
    "two values": ("job.json", REQUEST.strip() + "}\n", 4, "extra data"),
    "open heredoc": ("main.tf", NOTEBOOK + "  text = <<EOT\nhello\n}\n", 3, "heredoc"),
}

VALID = {
    "request": ("job.json", REQUEST),
    "JSON Lines": ("prices.json", '{"InstanceType": "ml.g5.xlarge"}\n{"InstanceType": "ml.g5.2xlarge"}\n'),
    "JSON with tabs": ("stack.json", '{\n\t"Resources": {"N": {"Type": "AWS::SageMaker::Model"}}\n}'),
    "stack": ("stack.yaml", STACK),
    "functions": (
        "stack.yaml",
        STACK + "    Properties:\n      A: !Sub '${AWS::Region}'\n      B: !GetAtt [N, Arn]\n",
    ),
    "dynamic reference": ("stack.yaml", STACK + "    Properties:\n      A: '{{resolve:ssm:/x}}'\n"),
    "documents": ("stack.yaml", f"{STACK}---\n{STACK}"),
    "Jinja": ("stack.yaml", f"{{% for x in y %}}\n{STACK}{{% endfor %}}\n"),
    "Helm": (
        "values.yaml",
        "kind: {{ .Values.kind }}\nInstanceType: {{ .Values.type }}\n  {{- toYaml . | nindent 2 }}\n",
    ),
    "Terraform": (
        "main.tf",
        NOTEBOOK
        + """
  # a comment { with [ brackets
  instance_type = var.type == "" ? "ml.t3.medium" : "${var.type}.${upper("x")}"
  tags = merge(
    var.tags, { for k, v in var.more :
      k => "a-${v}"
      if v != null },
    {
      a = 1, b = 2
    }
  )
  count = length([
    for s in var.list :
    s
    if s != ""
  ])
  user_data = <<-EOT
    #!/bin/bash
    if [ 1 ]; then echo "${var.x}"; fi
  EOT
  policy = jsonencode({ Statement = [{ Action = "*" }] })
  dynamic "x" {
    for_each = var.y
    content { z = x.value }
  }
  lifecycle { ignore_changes = [tags["a"], ] }
}
provider "aws" {}
locals { a = { "b c" : 1 } }
output "o" { value = aws_sagemaker_notebook_instance.n[*].arn }
""",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_template_that_does_not_parse_is_reported_with_its_line(case: str, tmp_path: Path) -> None:
    name, text, line, expected = BROKEN[case]
    (tmp_path / name).write_text(text)
    [hit] = [hit for hit in check_paths([str(tmp_path)]).hits if hit.code == "E901"]
    assert expected in hit.finding.message
    assert hit.span.line == line


@pytest.mark.parametrize("case", VALID)
def test_a_valid_or_unfinished_template_is_not_reported(case: str, tmp_path: Path) -> None:
    name, text = VALID[case]
    write_files(tmp_path, {name: text})
    assert "E901" not in [hit.code for hit in check_paths([str(tmp_path)]).hits]
