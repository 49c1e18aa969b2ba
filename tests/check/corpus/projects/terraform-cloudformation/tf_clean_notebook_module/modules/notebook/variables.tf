variable "name" { type = string }
variable "role_arn" { type = string }
variable "subnet_id" { type = string }
variable "security_groups" { type = list(string) }
variable "instance_type" {
  type    = string
  default = "ml.t3.medium"
}
variable "idle_seconds" {
  type    = number
  default = 3600
}
