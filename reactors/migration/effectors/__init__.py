"""Effects of migrations: Reservations are made and deleted, and statuses of PodMigrationJobs written."""
