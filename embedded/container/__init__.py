"""What the containers of docker-compose.yml do around their command: secrets, health, first run."""
