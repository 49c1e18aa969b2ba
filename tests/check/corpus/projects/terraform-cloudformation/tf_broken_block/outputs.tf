output "endpoint" {
  value = "voices"
}
