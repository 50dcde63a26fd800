"""What the tests know of Compose and of the images of docker-compose.yml."""
