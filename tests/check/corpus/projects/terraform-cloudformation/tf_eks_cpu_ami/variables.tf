variable "cluster" {
  type    = string
  default = "research"
}

variable "subnets" {
  type = list(string)
}
