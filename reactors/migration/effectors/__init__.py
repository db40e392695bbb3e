"""Effects of migrations: they create and delete Reservations, and write statuses of PodMigrationJobs."""
