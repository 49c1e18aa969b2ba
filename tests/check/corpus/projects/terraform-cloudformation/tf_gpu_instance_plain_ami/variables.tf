variable "key" {
  type = string
}

variable "office" {
  type    = string
  default = "203.0.113.0/24"
}
