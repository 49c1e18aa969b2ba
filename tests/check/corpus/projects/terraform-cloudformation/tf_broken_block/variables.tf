variable "model" {
  type        = string
  description = "The name of a model that exists"
}
